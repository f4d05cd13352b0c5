"""A step of a reproduction: one command line, run as a process, and the file that keeps its numbers.

The name of an output contains a digest of everything that determines it: other settings or data have another output,
and an existing output was made by the same command, whoever ran it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from pipelines.errors import BasslError, BasslWarning
from pipelines.files import write_atomically
from pipelines.models.opening import MODEL, STATE
from pipelines.processes import start_module
from pipelines.progress import ReportProgress
from pipelines.training.jobs import STOPPED, Machines, stop_signals
from pipelines.training.run_folder import LOCK, LOG, TENSORBOARD

MAKE_VIDEO = "make-video"
"""The step that has no command of bassl."""
AGAIN = {"build-index": " --overwrite", "pretrain": " --resume", "finetune": " --resume"}
"""Options with which a command can be run again when its output exists."""
_TRAINING = ("pretrain", "finetune")
_ON_ALL_MACHINES = (*_TRAINING, "encode")
_MEASURING = ("finetune", "score", "baseline")
_EPOCH = re.compile(r"(?:seed (\d+)/(\d+) +)?epoch (\d+)/(\d+) ")

Numbers = dict[str, list[float]]
"""A metric by its name, for each seed."""


class StoppedError(Exception):
    """A signal ended the command; what it has done so far is kept."""


@dataclass(frozen=True)
class Step:
    """One command."""

    command: str  # `bassl COMMAND`, or `MAKE_VIDEO`
    options: Mapping[str, Any] = field(default_factory=dict)  # by the names of the fields of its settings
    subjects: tuple[str, ...] = ()  # arguments before the options
    output: Path | None = None  # file or folder that it writes; None if it only measures
    needs: tuple[Step, ...] = ()  # steps that must be done first
    source: str = ""  # digest of data that it reads and that no step has written

    @property
    def identity(self) -> str:
        """Digest of everything that determines the result; the machines do not."""
        parts = [self.command, self.subjects, self.options, [step.identity for step in self.needs], self.source]
        return hashlib.sha256(json.dumps(parts, default=str, sort_keys=True).encode()).hexdigest()[:20]

    def line(self, machines: Machines = Machines()) -> str:
        """The command line."""
        start = "python -m pipelines.datasets.synthetic" if self.command == MAKE_VIDEO else f"bassl {self.command}"
        words = [*start.split(), *self.subjects]
        for name, value in self.options.items():
            words.append(f"--{name.replace('_', '-')}")
            if isinstance(value, list):
                words += map(str, value)
            elif value is not True:
                words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
        if self.command in _ON_ALL_MACHINES:
            words += machines.options
        return shlex.join([*words, *(["--json"] if self.command in _MEASURING else [])])


def writing(step: Step, output: Path) -> Step:
    """The step, made to write ``output`` with the digest of the step in its name."""
    ending = ".h5" if output.suffix == ".h5" else ""
    output = output.with_name(f"{output.name.removesuffix(ending)}-{step.identity[:8]}{ending}")
    return replace(step, options={**step.options, "output": output}, output=output)


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Steps and all that they need, each once, dependencies first."""
    ordered: dict[str, Step] = {}

    def add(step: Step) -> None:
        for need in step.needs:
            add(need)
        ordered.setdefault(step.identity, step)

    for step in steps:
        add(step)
    return list(ordered.values())


# --- kept results -----------------------------------------------------------------------------------------------------


def kept_result(step: Step, folder: Path) -> dict[str, Any] | None:
    """What :func:`run` kept of a step: its identity, command line, numbers, duration in seconds, and the time that it
    ended; None if it was not run or the file is damaged."""
    try:
        result: dict[str, Any] = json.loads(_file(step, folder).read_text("utf-8"))
        return result if result["identity"] == step.identity else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _file(step: Step, folder: Path) -> Path:
    return folder / f"{step.command}-{step.identity}.json"


Announce = Callable[[Sequence[str]], None]
"""Called with a command line, without options of `Machines`, that all machines run together."""


def run(
    step: Step, folder: Path, machines: Machines, overwrite: bool, report: ReportProgress, announce: Announce
) -> None:
    """Run a step whose needs are done, unless its output is there, and keep its result in ``folder``. Raises BasslError
    if its command fails or its output belongs to something else, StoppedError if a signal ended it."""
    if kept_result(step, folder) and (step.output is None or step.output.exists()) and not overwrite:
        return
    _file(step, folder).unlink(missing_ok=True)
    begun, words = time.monotonic(), shlex.split(_line_to_run(step, overwrite))
    if step.command in _ON_ALL_MACHINES:
        announce(words)
        words += machines.options
    printed = run_command(words, lambda done, total: report(step.command, done, total)) if words else ""
    if step.output is not None and not step.output.exists():
        raise BasslError(f"{step.output}: was not written by {step.line(machines)}; run it again")
    result = {
        "identity": step.identity,
        "command": step.line(machines),
        "numbers": numbers_of(step, printed),
        "seconds": time.monotonic() - begun,
        "finished": time.strftime("%Y-%m-%d %H:%M"),
    }
    write_atomically(_file(step, folder), (json.dumps(result, indent=1) + "\n").encode())


def _line_to_run(step: Step, overwrite: bool) -> str:
    """The command line that makes the output, or adopts one that is there; empty if there is nothing to do."""
    line, output = step.line(), step.output
    exists, trains = output is not None and output.exists(), step.command in _TRAINING
    if trains and output is not None and exists:  # a run may continue in an empty folder, or beside its own files
        names = {path.name for path in output.iterdir()} if output.is_dir() else {""}
        if names and names.isdisjoint((STATE, MODEL, LOG, TENSORBOARD, LOCK)):
            raise BasslError(f"{output}: is not the folder of a run; move it away")
    if overwrite and (trains or step.command in ("build-index", "extract-keyframes")):
        return f"{line} --overwrite"
    if trains:
        return f"{line} --resume"  # which checks the settings of a run that is there
    if exists and step.command == "build-index":
        return shlex.join(["bassl", "build-index", "--show", "--output", str(output)])
    return "" if exists and step.command == MAKE_VIDEO and not overwrite else line


# --- running a command ------------------------------------------------------------------------------------------------


def run_command(words: Sequence[str], report: Callable[[float, float | None], None]) -> str:
    """Run a command line as a process, and return what it printed. ``report`` is called with the epochs done and all.
    SIGINT and SIGTERM are passed on. Raises BasslError with the command's reason, StoppedError after a signal."""
    if words[0] == "bassl":  # without the user's file of defaults, which would change numbers
        module, arguments = "bassl_cli", ["--config", os.devnull, *words[1:]]
    else:
        module, arguments = words[2], [*words[3:]]
    complaint = last = ""
    with TemporaryFile("w+") as output:
        with start_module(module, arguments, output) as child, stop_signals(child.send_signal) as signals:
            try:
                assert child.stderr is not None
                report(0, None)
                for line in map(str.strip, child.stderr):
                    last = line or last
                    kind, _, text = line.partition(": ")
                    if kind == "warning":
                        warnings.warn(BasslWarning(text), stacklevel=2)
                    elif kind in ("bassl", "error"):
                        complaint = complaint or text
                    elif match := _EPOCH.match(line):
                        seed, seeds, epoch, epochs = (int(number or 1) for number in match.groups())
                        report((seed - 1) * epochs + epoch, seeds * epochs)
                child.wait()
            except BaseException:  # a second signal, which does not wait
                child.kill()
                raise
        if signals or child.returncode == STOPPED:  # on several machines, one that was stopped stops the others
            raise StoppedError
        if child.returncode:
            ended = f"ended with exit code {child.returncode}" if child.returncode > 0 else "was killed"
            raise BasslError(complaint or f"{shlex.join(words)}: {ended}{': ' * bool(last)}{last}")
        output.seek(0)
        return output.read()


def numbers_of(step: Step, printed: str) -> Numbers:
    """The numbers in the JSON that a step's command printed. Raises BasslError for a run that was not tested."""
    if step.command not in _MEASURING:
        return {}
    content = json.loads(printed)
    numbers: Numbers = {}
    if step.command == "finetune":
        if content["summary_of"] != "test":
            raise BasslError(f"{step.output}: was not tested, because the test split has no labelled scene ends")
        tests = [seed["test"] for seed in content["seeds"]][: step.options["seeds"]]
        numbers = {name: [test[name] for test in tests if name in test] for name in ("ap", "auc", "f1", "miou")}
        return {**numbers, "sum": [sum(metrics) for metrics in zip(*numbers.values(), strict=True)]}
    for key, metric in content["metrics"].items():
        value = metric["videos"] if metric["pooled"] is None else metric["pooled"]
        seeds = list(content["seeds"][key]["values"].values()) if key in content["seeds"] else []
        numbers["auc" if key == "auc_roc" else key] = seeds or [value] * (value is not None)
    for length, scenes in content.get("representation", {"nmi": {}})["nmi"].items():
        numbers[f"nmi_{length}"] = [scenes["mean"]] * (scenes["mean"] is not None)
    short, long = numbers.get("nmi_8"), numbers.get("nmi_32")
    return {**numbers, "nmi_change": [(long[0] - short[0]) / short[0]] if short and long else []}
