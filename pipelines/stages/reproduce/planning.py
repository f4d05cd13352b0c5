"""The steps that measure a system on some data, and which rows of a table are to be run."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipelines.baselines.systems import SYSTEMS
from pipelines.errors import BasslError
from pipelines.models.encoder_options import DEFAULT_ENCODER
from pipelines.stages.reproduce.data import FRAME_RATE, LONG, OTHER_SETS, PLACES365, Data, EvaluationProtocol, find_data
from pipelines.stages.reproduce.result import PlannedRow
from pipelines.stages.reproduce.rows import ACROSS, BASSL, ROWS, TABLES, Cell, Pretraining, RowSpec, SystemSpec
from pipelines.stages.reproduce.settings import ReproduceSettings, StageOptions
from pipelines.stages.reproduce.steps import Step, in_order

if TYPE_CHECKING:  # start-up time: NumPy
    from pipelines.models.shot_encoder import Preparation

NEEDS_VIDEOS = "needs videos"
NO_WEIGHTS = "weights not there (data/README.md)"
PAPER_ENCODER = "resnet50"
"""The encoder whose ImageNet weights the paper takes (section 4.1)."""


ChosenRows = list[tuple[str, EvaluationProtocol, list[tuple[RowSpec, bool]]]]
"""For each table and protocol its rows, and whether each is to be run."""


def planned_rows(settings: ReproduceSettings, options: StageOptions | None = None) -> list[PlannedRow]:
    """The rows to be run with their steps, see :func:`pipelines.stages.reproduce.plan`."""
    data = find_data(settings.data, settings.output / "work", options)
    planned = []
    for name, protocol, rows in chosen_rows(settings, data):
        planner = Planner(data, protocol, settings, download=False)
        for row in (row for row, wanted in rows if wanted):
            finals = planner.final_steps(row).values()
            steps = tuple(in_order([final for final in finals if isinstance(final, Step)]))
            reasons = dict.fromkeys(final for final in finals if isinstance(final, str))
            planned.append(PlannedRow(name, protocol.title, row.label, steps, "" if steps else ", ".join(reasons)))
    return planned


# --- which rows -------------------------------------------------------------------------------------------------------


def chosen_rows(settings: ReproduceSettings, data: Data) -> ChosenRows:
    """All rows of a table, for each protocol of the data. Raises BasslError for a row that the table does not have, or
    data that the table cannot be measured on."""
    names = TABLES[settings.table]
    labels = list(dict.fromkeys(row.label for name in names for row in ROWS[name]))
    for pattern in settings.rows:
        if not any(_matches(label, pattern) for label in labels):
            raise BasslError(f"{settings.table} has no row {pattern!r}; it has {', '.join(labels)}")

    def marked(rows: Sequence[RowSpec]) -> list[tuple[RowSpec, bool]]:
        return [(row, not settings.rows or any(_matches(row.label, p) for p in settings.rows)) for row in rows]

    if names != (ACROSS,):
        return [(name, protocol, marked(ROWS[name])) for name in names for protocol in data.protocols]
    if data.kind == "movienet":
        return [(ACROSS, data.protocols[0], marked(ROWS[ACROSS]))]
    if len(data.protocols) < 2:
        raise BasslError(
            f"bbc-ovsd tests on other sets than it trains on, and {data.title} are one; give MovieNet, or --data a "
            "folder with two folders of features"
        )
    # The rows of this table are the sets that are tested on, so each protocol has one row.
    return [(ACROSS, protocol, marked([_row_of_set(protocol.tested_on)])) for protocol in data.protocols]


def _row_of_set(tested_on: str) -> RowSpec:
    """The row of a data set in the table of other data sets, under its own name if the paper does not have it."""
    for row in ROWS[ACROSS]:
        if row.label.lower() == tested_on.lower():
            return row
    return replace(ROWS[ACROSS][0], label=tested_on)


def _matches(label: str, pattern: str) -> bool:
    return label.lower() == pattern.lower() or fnmatch.fnmatchcase(label.lower(), pattern.lower())


# --- steps of a row ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planner:
    """The steps of rows under one protocol. Without ``download`` no weights are downloaded to find out which are
    available."""

    data: Data
    protocol: EvaluationProtocol
    settings: ReproduceSettings
    download: bool = True

    def final_steps(self, row: RowSpec) -> dict[str, Step | str]:
        """For each column the step that measures its number, with all that it needs; or why it cannot be measured."""
        return {column: self._final_step(row, cell) for column, cell in row.cells.items()}

    def _final_step(self, row: RowSpec, cell: Cell) -> Step | str:
        system, data, index = cell.system, self.data, self.protocol.index
        if data.features and (reason := _needs_videos(system, cell.metric)):
            return reason
        scoring: dict[str, Any] = {"index": index.output, "features": data.home / "features", "resamples": 0}
        if data.features:
            scoring["frame_rate"] = FRAME_RATE
        if system.baseline is not None:
            return self._baseline(system.baseline)
        if cell.metric.startswith("nmi"):  # of an encoder, which no fine-tuning changes
            scoring["representation"] = True
            if data.features:
                return Step("score", scoring, (str(data.features[self.protocol.tested_on]),), None, (index,))
            need = self._image_features() if system.pretraining is None else self._pretraining(system.pretraining)
            return Step("score", scoring, (str(need.output),), None, (index, need))
        if system.pretraining is not None and not system.finetune:
            pretrained = self._pretraining(system.pretraining)
            return Step("score", scoring, (str(pretrained.output),), None, (index, pretrained))
        tuned = self._finetuning(system)
        if isinstance(tuned, str):
            return tuned
        if data.kind == "movienet" and row in ROWS[ACROSS]:
            other = OTHER_SETS[row.label]
            if not other.exists():
                return f"{row.label} not there (data/README.md)"
            options = {**scoring, "index": other, "split": "all"}
            return Step("score", options, (str(tuned.output),), None, (tuned,), str(other.stat().st_mtime_ns))
        return tuned

    def _pretraining(self, pretraining: Pretraining) -> Step:
        data = self.data
        if pretraining.options == {"neighbours": 8} and "neighbours" not in data.options.pretrain:
            pretraining = BASSL  # K = 8 is the default: the same run as in the other tables
        epochs = max(1, round(pretraining.epochs / 10 * (self.settings.epochs or data.options.epochs)))
        output = data.home / "pretrain" / pretraining.name
        options: dict[str, Any] = {"index": data.unlabelled.output, "output": output}
        if data.features:
            options["features"] = tuple(data.features.values())
        of_long = data.options.long_pretrain if pretraining.epochs > LONG else {}
        options |= {**data.options.pretrain, **of_long, **pretraining.options, "epochs": epochs}
        return Step("pretrain", options, (), output, (data.unlabelled,))

    def _finetuning(self, system: SystemSpec) -> Step | str:
        data, index = self.data, self.protocol.index
        output = data.home / self.protocol.name / system.name
        options: dict[str, Any] = {
            "index": index.output,
            "output": output,
            "crn": system.crn,
            "seeds": self.settings.seeds,
        }
        needs: tuple[Step, ...] = (index,)
        source = ""
        if data.features:
            options["features"] = tuple(data.features.values())
        else:
            options["feature_folder"] = data.home / "features"
        if system.pretraining is not None:
            pretrained = self._pretraining(system.pretraining)
            needs = (index, pretrained)
            options |= {"init": pretrained.output, "transfer": system.transfer}
        elif system.encoder == "Places365":
            if not PLACES365.exists():
                return NO_WEIGHTS
            options |= {"init": PLACES365, "transfer": "encoder"}
            source = str(PLACES365.stat().st_mtime_ns)
        else:
            options["init"] = "none"
            if not data.features:
                preparation = data.options.preparation
                options |= {"encoder": image_encoder(preparation, self.download)[0], "preparation": preparation}
        options |= data.options.finetune.get(system.crn, {})
        if system.transfer != "encoder+crn":
            options |= data.options.network.get(system.crn, {})
        return Step("finetune", options, (), output, needs, source)

    def _baseline(self, name: str) -> Step:
        """Baselines read the given features, or those of the ImageNet encoder."""
        data = self.data
        options: dict[str, Any] = {"index": self.protocol.index.output}
        needs: tuple[Step, ...] = (self.protocol.index,)
        if data.features:
            options |= {"features": tuple(data.features.values()), "frame_rate": FRAME_RATE}
        else:
            encode = self._image_features()
            options["features"] = (encode.output,)
            needs = (encode,)
            if SYSTEMS[name].several and data.extra is not None:
                options["extra"] = (data.extra.output,)
                needs += (data.extra,)
        if SYSTEMS[name].learn is not None:
            options["seeds"] = self.settings.seeds
        return Step("baseline", options, (data.options.baselines.get(name, name),), None, needs)

    def _image_features(self) -> Step:
        """The features of the labelled videos by the ImageNet encoder."""
        preparation, index = self.data.options.preparation, self.protocol.index
        name, identity = image_encoder(preparation, self.download)
        folder = self.data.home / "features"
        options: dict[str, Any] = {"encoder": name, "preparation": preparation, "output": folder}
        if self.data.kind == "movienet":  # elsewhere all videos have labels
            options["labelled"] = True
        return Step("encode", options, (str(index.output),), folder / f"{identity}.h5", (index,))


def _needs_videos(system: SystemSpec, metric: str) -> str:
    """Why a number cannot be measured on features: what it compares happens in the encoder."""
    if system.encoder == "Places365":
        return NEEDS_VIDEOS
    if system.pretraining is None:
        return ""
    only_encoder = system.pretraining.shots_only or system.transfer == "encoder" or metric.startswith("nmi")
    return NEEDS_VIDEOS if only_encoder else ""


@functools.cache
def image_encoder(preparation: Preparation, download: bool = True) -> tuple[str, str]:
    """Name and id of the encoder with ImageNet weights: the paper's, or the built-in one if these are unavailable."""
    if not download:
        return PAPER_ENCODER, f"{PAPER_ENCODER}-ID"
    from pipelines.models.encoders import load_encoder  # start-up time: NumPy

    try:
        return PAPER_ENCODER, load_encoder(PAPER_ENCODER, "cpu", how=preparation).id
    except BasslError:
        return DEFAULT_ENCODER, load_encoder(DEFAULT_ENCODER, "cpu", how=preparation).id
