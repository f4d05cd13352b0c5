"""A stage: one command, what it needs, and running it so that what is done stays done.

A stage is run by the public function of its command, with settings made of the same words that stand on the command
line: so the line that is written down, run by hand, does the same.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pipelines.errors import BasslError
from pipelines.files import write_atomically

Command = Literal[
    "make-film",
    "extract-keyframes",
    "build-index",
    "extract-sound",
    "encode",
    "pretrain",
    "finetune",
    "score",
    "baseline",
]
Values = dict[str, list[float]]
"""A metric by its name, for each seed."""
Tell = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is in all."""

_TORCHRUN = ("pretrain", "finetune")
_MODULES = {"make-film": "pipelines.datasets.synthetic", "encode": "pipelines.stages.encode"}
"""Stages that are no command of bassl."""


class StoppedError(Exception):
    """A stage was asked to stop; what it has done is kept."""


@dataclass(frozen=True)
class Stage:
    """One command.

    Attributes:
        command: `bassl COMMAND`, but for those in `_MODULES`.
        options: by the names of the fields of its settings.
        subjects: what stands before the options.
        output: file or folder that it leaves; None for one that only says numbers.
        needs: stages that come before.
        source: digest of the data that it reads and no stage has made.
    """

    command: Command
    options: Mapping[str, Any] = field(default_factory=dict)
    subjects: tuple[str, ...] = ()
    output: Path | None = None
    needs: tuple[Stage, ...] = ()
    source: str = ""

    @property
    def identity(self) -> str:
        """Digest of everything that decides what comes out; where it runs is no part of it."""
        parts = [self.command, self.subjects, self.options, [one.identity for one in self.needs], self.source]
        return hashlib.sha256(json.dumps(parts, default=str, sort_keys=True).encode()).hexdigest()[:20]

    def line(self, gpus: int | None = None) -> str:
        """As it is typed."""
        module = _MODULES.get(self.command)
        words = [*(("python", "-m", module) if module else ("bassl", self.command)), *self.subjects]
        for name, value in self.options.items():
            words.append(f"--{name.replace('_', '-')}")
            if isinstance(value, list):
                words += map(str, value)
            elif value is not True:
                words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
        if gpus is not None and self.command in _TORCHRUN:
            words += ["--gpus", str(gpus)]
        return shlex.join(words)


def in_order(stages: Sequence[Stage]) -> list[Stage]:
    """Stages and all that they need, each once, what is needed first."""
    found: dict[str, Stage] = {}

    def add(stage: Stage) -> None:
        for one in stage.needs:
            add(one)
        found.setdefault(stage.identity, stage)

    for stage in stages:
        add(stage)
    return list(found.values())


def run(stage: Stage, gpus: int | None, overwrite: bool, tell: Tell) -> Values:
    """Run a stage whose needs are done, unless what it leaves is there; the numbers that it says.

    Raises:
        BasslError, ValueError: what its command refuses.
        StoppedError: it was asked to stop.
    """
    if stage.output is None:
        return _SAYING[stage.command](stage, gpus, tell)
    marker = _marker(stage.output)
    before = _read(marker)
    same = before.get("identity") == stage.identity and not overwrite
    if not (same and before.get("done") and stage.output.exists()):
        write_atomically(marker, _json({"identity": stage.identity, "done": False, "command": stage.line(gpus)}))
        _LEAVING[stage.command](stage, gpus, same, tell)
        write_atomically(marker, _json({"identity": stage.identity, "done": True, "command": stage.line(gpus)}))
    return _finetuned(stage.output) if stage.command == "finetune" else {}


def _marker(output: Path) -> Path:
    """Beside what it is about, because a run's folder is its command's; hidden, because films lie among labels."""
    return output.with_name(f".{output.name}.stage")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):  # not there, or half of it: then nothing is known
        return {}
    return content if isinstance(content, dict) else {}


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


# --- stages that leave something --------------------------------------------------------------------------------------


def _make_film(stage: Stage, gpus: int | None, go_on: bool, tell: Tell) -> None:
    from pipelines.datasets.synthetic import SyntheticFilmSettings, write_film

    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stage.options.items()
    }
    write_film(stage.subjects[0], SyntheticFilmSettings(**values), lambda done, total: tell("drawing", done, total))


def _extract_keyframes(stage: Stage, gpus: int | None, go_on: bool, tell: Tell) -> None:
    from pipelines.stages.extract_keyframes import ExtractSettings, extract_keyframes

    results = extract_keyframes(stage.subjects, ExtractSettings(**stage.options, overwrite=not go_on))
    if all(result.status == "failed" for result in results):
        raise BasslError(results[0].error)


def _extract_sound(stage: Stage, gpus: int | None, go_on: bool, tell: Tell) -> None:
    from pipelines.stages.extract_sound import SoundSettings, extract_sound

    for result in extract_sound(stage.subjects, SoundSettings(**stage.options)):
        if result.status == "failed":
            raise BasslError(result.error)


def _build_index(stage: Stage, gpus: int | None, go_on: bool, tell: Tell) -> None:
    from pipelines.stages.build_index import IndexSettings, build_index

    options = dict(stage.options)
    if "labels" in options:
        options["labels"] = (options["labels"],)
    build_index(stage.subjects, IndexSettings(**options, overwrite=True))


def _encode(stage: Stage, gpus: int | None, go_on: bool, tell: Tell) -> None:
    from pipelines.stages.encode import EncodeSettings, encode_shots

    made = encode_shots(EncodeSettings(**stage.options), lambda state: tell("encoding", state.shots, state.total))
    if made != stage.output:
        raise BasslError(f"{made}: is the store of the encoder, and {stage.output} was expected; run it again")


def _train(stage: Stage, gpus: int | None, go_on: bool, tell: Tell) -> None:
    from pipelines.options import options_of, settings_from
    from pipelines.stages.finetune import FinetuneSettings, finetune
    from pipelines.stages.pretrain import PretrainSettings, pretrain

    if gpus is not None and gpus > 1:
        _torchrun(stage, gpus, go_on)
        return
    kind: Any = PretrainSettings if stage.command == "pretrain" else FinetuneSettings
    train: Any = pretrain if stage.command == "pretrain" else finetune
    given = {**stage.options, "resume": go_on, "overwrite": not go_on}
    if gpus is not None:
        given["device"] = "cuda" if gpus else "cpu"
    settings = settings_from(kind, options_of(kind, skip=("mean", "std")), given)
    said = "pre-training" if stage.command == "pretrain" else "fine-tuning"
    if train(settings, lambda state: tell(said, state.step, state.steps)).stopped:
        raise StoppedError


def _torchrun(stage: Stage, gpus: int, go_on: bool) -> None:
    """The same function in a process a GPU."""
    words = shlex.split(stage.line())[2:]
    words += ["--resume" if go_on else "--overwrite", "--device", "cuda"]
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(gpus)]
    ended = subprocess.run(
        [*start, "-m", f"pipelines.stages.{stage.command}", *words], stderr=subprocess.PIPE, check=False
    )
    if ended.returncode in (143, -signal.SIGINT, -signal.SIGTERM):
        raise StoppedError
    if ended.returncode:
        said = [
            line for line in ended.stderr.decode(errors="replace").splitlines() if line.startswith(f"{stage.command}: ")
        ]
        raise BasslError(said[0] if said else f"{stage.command} on {gpus} GPUs ended with code {ended.returncode}")


_LEAVING: Mapping[str, Callable[[Stage, int | None, bool, Tell], None]] = {
    "make-film": _make_film,
    "extract-keyframes": _extract_keyframes,
    "extract-sound": _extract_sound,
    "build-index": _build_index,
    "encode": _encode,
    "pretrain": _train,
    "finetune": _train,
}


# --- numbers ----------------------------------------------------------------------------------------------------------


def _finetuned(run_folder: Path) -> Values:
    """The test metrics of each seed, at the release's threshold."""
    from pipelines.training.run_folder import RESULT

    content = json.loads((run_folder / RESULT).read_text())
    if content["summary_of"] != "test":
        raise BasslError(f"{run_folder}: was not tested; the index has no test split with labels")
    tests = [seed["test"] for seed in content["seeds"]]
    values = {name: [float(one[name]) for one in tests if name in one] for name in ("ap", "auc", "f1", "miou")}
    values["sum"] = [sum(parts) for parts in zip(*values.values(), strict=True)]
    return values


def _score(stage: Stage, gpus: int | None, tell: Tell) -> Values:
    from pipelines.stages.score import ScoreSettings, score

    return _scored(score(stage.subjects[0], None, ScoreSettings(**stage.options), tell))


def _baseline(stage: Stage, gpus: int | None, tell: Tell) -> Values:
    from pipelines.options import options_of, settings_from
    from pipelines.stages.baseline import BaselineSettings, baseline

    given = {"system": stage.subjects[0], **stage.options}
    return _scored(baseline(settings_from(BaselineSettings, options_of(BaselineSettings), given), tell))


def _scored(result: Any) -> Values:
    values: Values = {}
    for name, metric in (("ap", "ap"), ("auc", "auc_roc"), ("f1", "f1"), ("miou", "miou"), ("sum", "sum")):
        one = result.measures.get(metric)
        if metric in result.seeds:
            values[name] = [float(value) for value in result.seeds[metric].values.values()]
        elif one is not None and one.value is not None:
            values[name] = [float(one.value)]
    if result.representation is not None:
        found = {one.length: one.nmi for one in result.representation.nmi if one.nmi == one.nmi}
        values |= {f"nmi_{length}": [nmi] for length, nmi in found.items()}
        if {8, 32} <= found.keys():
            values["nmi_change"] = [(found[32] - found[8]) / found[8]]
    return values


_SAYING: Mapping[str, Callable[[Stage, int | None, Tell], Values]] = {"score": _score, "baseline": _baseline}
