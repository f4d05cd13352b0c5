"""Running a step: by the public function of its command, with the settings of its command line.

So the recorded command line, run by hand, does the same. A step that writes something is run once: a marker
beside its output holds the identity of the step that wrote it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.datasets.synthetic import SyntheticVideoSettings, write_video
from pipelines.errors import BasslError
from pipelines.files import write_atomically
from pipelines.options import settings_from, with_options
from pipelines.progress import ReportProgress, TrainingProgress
from pipelines.stages.baseline import BaselineSettings, baseline
from pipelines.stages.build_index import IndexSettings, build_index
from pipelines.stages.encode import EncodeSettings, encode_shots
from pipelines.stages.extract_keyframes import ExtractSettings, extract_keyframes
from pipelines.stages.extract_sound import SoundSettings, extract_sound
from pipelines.stages.finetune import FinetuneSettings, finetune
from pipelines.stages.pretrain import PretrainSettings, pretrain
from pipelines.stages.reproduce.steps import Step
from pipelines.stages.score import ScoreResult, ScoreSettings, score
from pipelines.training.launching import launch
from pipelines.training.machines import Machines
from pipelines.training.run_folder import RESULT

Values = dict[str, list[float]]
"""A metric by its name, for each seed."""


class StoppedError(Exception):
    """A step was interrupted; its results so far are kept."""


def run(step: Step, gpus: int | None, overwrite: bool, report: ReportProgress) -> Values:
    """Run a step whose needs are done, unless its output is there; the metrics that it measures. Raises BasslError or
    ValueError where its command refuses it, StoppedError where it was interrupted."""
    if step.output is None:
        return _measure(step, report)
    marker = _marker(step.output)
    before = _read(marker)
    same = before.get("identity") == step.identity and not overwrite
    if not (same and before.get("done") and step.output.exists()):
        facts = {"identity": step.identity, "done": False, "command": step.line(gpus)}
        write_atomically(marker, _json(facts))
        if step.command in ("pretrain", "finetune"):
            _train(step, gpus, same, report)
        else:
            _write(step, same, report)
        write_atomically(marker, _json({**facts, "done": True}))
    return _of_result_file(step.output) if step.command == "finetune" else {}


def _marker(output: Path) -> Path:
    """Beside the output, because a run folder belongs to its command; hidden, because videos lie among their labels."""
    return output.with_name(f".{output.name}.stage")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):  # missing or damaged: the step is run again
        return {}
    return content if isinstance(content, dict) else {}


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


# --- steps that write something ---------------------------------------------------------------------------------------


def _write(step: Step, resume: bool, report: ReportProgress) -> None:
    options: dict[str, Any] = dict(step.options)
    if step.command == "make-video":
        tuples = {name: tuple(value) for name, value in options.items() if isinstance(value, list)}
        drawing = SyntheticVideoSettings(**{**options, **tuples})
        write_video(step.subjects[0], drawing, lambda done, total: report("drawing", done, total))
    elif step.command == "extract-keyframes":
        videos = extract_keyframes(step.subjects, with_options(ExtractSettings, **options, overwrite=not resume))
        stores = set()
        for video in videos:
            if video.status == "failed":
                raise BasslError(video.error)
            stores.add(video.output)
        for stale in set(options["output"].glob("*.h5")) - stores:  # of a video that is no longer among the data
            stale.unlink()
    elif step.command == "extract-sound":
        for result in extract_sound(step.subjects, with_options(SoundSettings, **options)):
            if result.status == "failed":
                raise BasslError(result.error)
    elif step.command == "build-index":
        build_index(step.subjects, with_options(IndexSettings, **options, overwrite=True))
    else:
        settings = with_options(EncodeSettings, index=step.subjects[0], **options)
        made = encode_shots(settings, report)
        if made != step.output:
            raise BasslError(f"{made}: is the store of the encoder, and {step.output} was expected; run it again")


def _train(step: Step, gpus: int | None, resume: bool, report: ReportProgress) -> None:
    if gpus is not None and gpus > 1:
        _torchrun(step, gpus, resume)
        return
    given = {**step.options, "resume": resume, "overwrite": not resume}
    if gpus is not None:
        given["device"] = "cuda" if gpus else "cpu"

    def settings(kind: type[Any]) -> Any:
        return settings_from(kind, given)

    def show(name: str) -> Callable[[TrainingProgress], None]:
        return lambda state: report(name, state.step, state.steps)

    if step.command == "pretrain":
        stopped = pretrain(settings(PretrainSettings), show("pre-training")).stopped
    else:
        stopped = finetune(settings(FinetuneSettings), show("fine-tuning")).stopped
    if stopped:
        raise StoppedError


def _torchrun(step: Step, gpus: int, resume: bool) -> None:
    """Run the command in one process for each GPU."""
    words = [*shlex.split(step.line(gpus))[1:], "--resume" if resume else "--overwrite", "--quiet"]
    if launch(Machines(gpus=gpus), words):
        raise StoppedError


# --- metrics ----------------------------------------------------------------------------------------------------------


def _of_result_file(run_folder: Path) -> Values:
    """The test metrics of each seed of a fine-tuned run, at the threshold of the paper's release."""
    content = json.loads((run_folder / RESULT).read_text())
    if content["summary_of"] != "test":
        raise BasslError(f"{run_folder}: was not tested; the test split has no labelled scene ends")
    tests = [seed["test"] for seed in content["seeds"]]
    values = {name: [float(one[name]) for one in tests if name in one] for name in ("ap", "auc", "f1", "miou")}
    values["sum"] = [sum(parts) for parts in zip(*values.values(), strict=True)]
    return values


def _measure(step: Step, report: ReportProgress) -> Values:
    if step.command == "score":
        return _of_score(score(step.subjects[0], None, ScoreSettings(**step.options), report))
    return _of_score(baseline(BaselineSettings(step.subjects[0], **step.options), report))


def _of_score(result: ScoreResult) -> Values:
    values: Values = {}
    for name in ("ap", "auc", "f1", "miou", "sum"):
        one = result.measures.get(name)
        if name in result.seeds:
            values[name] = list(result.seeds[name].values.values())
        elif one is not None and one.value is not None:
            values[name] = [one.value]
    if result.representation is not None:
        found = {one.length: one.nmi for one in result.representation.nmi if one.nmi == one.nmi}
        values |= {f"nmi_{length}": [nmi] for length, nmi in found.items()}
        if {8, 32} <= found.keys():
            values["nmi_change"] = [(found[32] - found[8]) / found[8]]
    return values
