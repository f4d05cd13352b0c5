"""Which rows of a table are run, the steps that measure them, and the disk space that they need."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pipelines.baselines.systems import SYSTEMS
from pipelines.errors import BasslError, count
from pipelines.models.encoder_loading import load_encoder
from pipelines.models.encoders.options import DEFAULT_ENCODER
from pipelines.stages.reproduce.data import FRAME_RATE, MOVIENET, OTHER_SETS, PLACES365, Data, movienet_data
from pipelines.stages.reproduce.rows import ACROSS, BASSL, ROWS, Pretraining, RowSpec, SystemSpec
from pipelines.stages.reproduce.settings import TABLES, ReproduceSettings
from pipelines.stages.reproduce.steps import Step, in_order, writing

PAPER_ENCODER = "resnet50"
"""The encoder with ImageNet weights in the paper (section 4.1)."""
LONG = 20
"""Epochs beyond which pre-training takes `StageOptions.long_pretrain`."""


@dataclass(frozen=True)
class PlannedRow:
    """A row of a table for one way to train and test, with what measures it."""

    table: str
    protocol: str  # the way to train and test, in words; empty if there is only one
    row: RowSpec
    wanted: bool  # whether to run it
    finals: Mapping[str, Step | str]  # by column the step that measures its number, or why it cannot be measured

    @property
    def steps(self) -> list[Step]:
        """All steps, in order; empty if the row cannot be measured."""
        return in_order([final for final in self.finals.values() if isinstance(final, Step)])

    @property
    def absent(self) -> str:
        """Why the row cannot be measured; empty if it can be."""
        return "" if self.steps else ", ".join(dict.fromkeys(map(str, self.finals.values())))


def planned_rows(settings: ReproduceSettings, ways: Sequence[Data], download: bool = True) -> list[PlannedRow]:
    """All rows of a table, for each way to train and test. Without ``download`` no weights are downloaded to find out
    which are available. Raises BasslError for unknown rows, or data that the table cannot be measured on."""
    names = TABLES[settings.table]
    labels = list(dict.fromkeys(row.label for name in names for row in ROWS[name]))
    for pattern in settings.rows:
        if not any(_matches(label, pattern) for label in labels):
            raise BasslError(f"{settings.table} has no row {pattern!r}; choose from {', '.join(labels)}")
    if names == (ACROSS,) and ways[0].kind != "movienet" and len(ways) < 2:
        raise BasslError(
            f"bbc-ovsd tests on other sets than it trains on, but {ways[0].title} are one set; use MovieNet, or `data` "
            "with a folder that contains two folders of features"
        )
    planned = []
    for name in names:
        for data in ways:
            planner = Planner(data, settings, download)
            rows = ROWS[name]
            if name == ACROSS and data.kind != "movienet":  # its rows are the sets that are tested on, here one set
                own = [row for row in rows if row.label.lower() == data.tested_on.lower()]
                rows = tuple(own) or (replace(rows[0], label=data.tested_on),)
            for row in rows:
                wanted = not settings.rows or any(_matches(row.label, pattern) for pattern in settings.rows)
                finals = {column: planner.final_step(row, *cell) for column, cell in row.cells.items()}
                planned.append(PlannedRow(name, data.direction, row, wanted, finals))
    return planned


def _matches(label: str, pattern: str) -> bool:
    return fnmatchcase(label.lower(), pattern.lower())


@dataclass(frozen=True)
class Planner:
    """Makes the steps for one way to train and test."""

    data: Data
    settings: ReproduceSettings
    download: bool

    def final_step(self, row: RowSpec, system: SystemSpec, metric: str) -> Step | str:
        """The step that measures a number, with all that it needs; or why it cannot be measured."""
        data = self.data
        nmi = metric.startswith("nmi")  # of an encoder, which fine-tuning does not change
        if data.stores and _needs_videos(system, nmi):
            return "needs videos"
        if system.baseline is not None:
            return self._baseline(system.baseline)
        if nmi and data.stores:
            return self._score(data.stores[data.tested_on], data.index, representation=True)
        if nmi or not system.finetuned:
            how = {"representation": True} if nmi else {}
            if system.pretraining is None:
                return self._score((features := self._image_features()).output, features, **how)
            pretrained = self._pretraining(system.pretraining)
            if data.stores:
                return self._score(pretrained.output, data.index, pretrained, **how)
            encoded = self._encode(pretrained.output, pretrained)  # on all GPUs; `bassl score` would take one
            return self._score(pretrained.output, encoded, **how)
        if system.encoder == "Places365" and not PLACES365.exists():
            return "weights not there (data/README.md)"
        tuned = self._finetuning(system)
        if data.kind != "movienet" or row not in ROWS[ACROSS]:
            return tuned
        other = OTHER_SETS[row.label]
        if not other.exists():
            return f"{row.label} not there (data/README.md)"
        return replace(self._score(tuned.output, tuned, index=other, split="all"), source=_changed(other))

    def _score(self, subject: Path | None, *needs: Step, **options: Any) -> Step:
        data = self.data
        scoring: dict[str, Any] = {"index": data.index.output, "features": data.feature_folder, "resamples": 0}
        if data.stores:
            scoring["frame_rate"] = FRAME_RATE
        return Step("score", scoring | options, (str(subject),), needs=needs)

    def _pretraining(self, pretraining: Pretraining) -> Step:
        data = self.data
        if pretraining.options == {"neighbours": 8} and "neighbours" not in data.options.pretrain:
            pretraining = BASSL  # K = 8 is the default: the same run as in the other tables
        epochs = max(1, round(pretraining.epochs / 10 * (self.settings.epochs or data.options.epochs)))
        options: dict[str, Any] = {"index": data.unlabelled.output}
        if data.stores:
            options["features"] = tuple(data.stores.values())
        of_long = data.options.long_pretrain if pretraining.epochs > LONG else {}
        options |= {**data.options.pretrain, **of_long, **pretraining.options, "epochs": epochs}
        step = Step("pretrain", options, needs=(data.unlabelled,))
        return writing(step, data.home / "pretrain" / pretraining.name)

    def _finetuning(self, system: SystemSpec) -> Step:
        data, needs, source = self.data, [self.data.index], ""
        options: dict[str, Any] = {"index": data.index.output, "crn": system.crn, "seeds": self.settings.seeds}
        options["select"] = "last"  # the release's epoch
        options |= {"features": tuple(data.stores.values())} if data.stores else {"feature_folder": data.feature_folder}
        if system.pretraining is not None:
            needs.append(self._pretraining(system.pretraining))
            transfer = "encoder+crn" if system.transfers_crn else "encoder"
            options |= {"init": needs[-1].output, "transfer": transfer}
        elif system.encoder == "Places365":
            options |= {"init": PLACES365, "transfer": "encoder"}
            source = _changed(PLACES365)
        else:
            options["init"] = "none"
            if not data.stores:
                preparation = data.options.preparation
                options |= {"encoder": image_encoder(preparation, self.download)[0], "preparation": preparation}
        options |= data.options.finetune.get(system.crn, {})
        if not system.transfers_crn:
            options |= data.options.network.get(system.crn, {})
        step = Step("finetune", options, needs=tuple(needs), source=source)
        return writing(step, data.home / data.tested_on / system.name)

    def _baseline(self, name: str) -> Step:
        data, needs = self.data, [self.data.index]
        options: dict[str, Any] = {"index": data.index.output}
        if data.stores:
            options |= {"features": tuple(data.stores.values()), "frame_rate": FRAME_RATE}
        else:
            needs = [self._image_features()]
            options["features"] = (needs[0].output,)
            if SYSTEMS[name].several and data.sound is not None:
                options["extra"] = (data.sound.output,)
                needs.append(data.sound)
        if SYSTEMS[name].trainer:
            options["seeds"] = self.settings.seeds
        return Step("baseline", options, (data.options.baselines.get(name, name),), needs=tuple(needs))

    def _image_features(self) -> Step:
        preparation, folder = self.data.options.preparation, self.data.feature_folder
        name, identity = image_encoder(preparation, self.download)
        return replace(self._encode(name, preparation=preparation), output=folder / identity)

    def _encode(self, encoder: str | Path | None, *needs: Step, **options: Any) -> Step:
        data = self.data
        options = {"encoder": encoder, **options, "output": data.feature_folder}
        if data.kind == "movienet":  # in other data all videos have labels
            options["labelled"] = True
        return Step("encode", options, (str(data.index.output),), needs=(data.index, *needs))


def _changed(path: Path) -> str:
    return str(path.stat().st_mtime_ns)


def _needs_videos(system: SystemSpec, nmi: bool) -> bool:
    """Whether a number compares encoders, so that it cannot be measured on features."""
    if system.pretraining is None:
        return system.encoder == "Places365"
    return nmi or system.pretraining.shots_only or (system.finetuned and not system.transfers_crn)


@functools.cache
def image_encoder(preparation: Literal["centre", "squeeze"], download: bool = True) -> tuple[str, str]:
    """Name and id of the encoder with ImageNet weights: the paper's, or the built-in one if these are unavailable."""
    if not download:
        return PAPER_ENCODER, f"{PAPER_ENCODER}-ID"
    try:
        return PAPER_ENCODER, load_encoder(PAPER_ENCODER, "cpu", how=preparation).id
    except BasslError:
        return DEFAULT_ENCODER, load_encoder(DEFAULT_ENCODER, "cpu", how=preparation).id


def disk_space(settings: ReproduceSettings) -> list[tuple[str, float, str]]:
    """Disk space of MovieNet at full size and of the outputs of the rows to run: what, gigabytes, and the estimate.
    Steps that several rows share are counted once."""
    data = movienet_data(MOVIENET, settings.output / "work" / "movienet")
    rows = planned_rows(settings, [data], download=False)
    steps = in_order([step for row in rows if row.wanted for step in row.steps])
    runs = {str(step.output) for step in steps if step.command == "pretrain"}
    tuned = [step.options for step in steps if step.command == "finetune"]
    encoders = {str(options.get("encoder") or options["init"]) for options in tuned}
    encoders |= {str(step.options["encoder"]) for step in steps if step.command == "encode"}
    encoders |= runs & {step.subjects[0] for step in steps if step.command == "score"}
    images, shots, labelled, seeds = 4_800_000, 1_600_000, 500_000, settings.seeds
    encoder, crn = 4 * 23.5e6 / 1e9, 4 * 15.8e6 / 1e9  # weights of ResNet-50, and of the paper's transformer
    run = 3 * (encoder + crn)  # the model, and a state with weights, momentum and heads
    model = crn * (seeds + 3) + encoder * seeds
    # A keyframe of 240 lines at quality 90 in Big Buck Bunny; other videos differ by half and more.
    return [
        ("keyframes", images * 22e3 / 1e9, f"{images:,} of about 22 KB"),
        ("index", shots * 65 / 1e9, f"{shots:,} shots"),
        ("features", len(encoders) * labelled * 2048 * 4 / 1e9, f"{len(encoders)} encoders x {labelled:,} x 2048"),
        ("pre-trained runs", len(runs) * run, f"{count(len(runs), 'run')} with their states"),
        ("fine-tuned runs", len(tuned) * model, f"{count(len(tuned), 'network')} x {count(seeds, 'seed')}"),
    ]
