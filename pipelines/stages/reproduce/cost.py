"""The estimated cost of a table on MovieNet at full size: V100 hours and gigabytes, scaled from the paper's figures.

Pre-training BaSSL for ten epochs on MovieNet takes 16 V100 GPUs less than two days (appendix A). That is at most 768
hours for ten times 1.6 million windows of 17 shots and two more of the slow sequence. Everything else is scaled by the
number of images that the encoder reads, or by multiplications, at the same rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.pretext.settings import PretextSettings
from pipelines.stages.pretrain.data import PretextWindows
from pipelines.stages.reproduce.planning import is_wanted
from pipelines.stages.reproduce.rows import ROWS, TABLES, Pretraining, SystemSpec
from pipelines.stages.reproduce.settings import ReproduceSettings

PAPER_HOURS = 16 * 48.0
SHOTS, FILMS = 1_600_000, 1_100
LABELLED_SHOTS = 500_000
TRAINING_SHOTS = LABELLED_SHOTS * 190 // 318
KEYFRAMES, WIDTH, NEIGHBOURS, EPOCHS = 3, 2048, 8, 20
JPEG_BYTES = 22_000
"""Of a keyframe of 240 lines at quality 90, measured on Big Buck Bunny; films differ by half and more."""
_WINDOW = 2 * NEIGHBOURS + 1
_PAPER_IMAGES = SHOTS * 10 * (_WINDOW + 2)
_RESNET50 = 4.1e9  # multiplications for an image of 224 x 224 (He et al. 2016)
_ENCODER_PARAMETERS = 23.5e6
_CRN_PARAMETERS = 15.8e6  # the paper's transformer, its input layer included


@dataclass(frozen=True)
class Cost:
    """Computing time of a step, in hours of one V100, and how it is estimated."""

    stage: str
    hours: float
    how: str


@dataclass(frozen=True)
class Need:
    """Disk space."""

    what: str
    gigabytes: float
    how: str


@dataclass(frozen=True)
class TrainingWork:
    """The training runs behind the rows of a table, each once, however many rows share it."""

    pretrainings: tuple[Pretraining, ...]  # runs of pre-training
    encoders: frozenset[str]  # names of the encoders of the labelled films
    tuned: tuple[SystemSpec, ...]  # networks that are fine-tuned


def work_of(settings: ReproduceSettings) -> TrainingWork:
    """The training runs behind the wanted rows of a table."""
    rows = [row for name in TABLES[settings.table] for row in ROWS[name] if is_wanted(settings, row)]
    systems = {cell.system.name: cell.system for row in rows for cell in row.cells.values()}.values()
    return TrainingWork(
        tuple({one.pretraining.name: one.pretraining for one in systems if one.pretraining is not None}.values()),
        frozenset(one.encoder or (one.pretraining and one.pretraining.name) or "ImageNet" for one in systems),
        tuple(one for one in systems if one.baseline is None and one.finetune),
    )


def costs(settings: ReproduceSettings) -> list[Cost]:
    """Of the steps that need GPUs; those that several rows share are counted once."""
    work = work_of(settings)
    found = []
    for pretraining in work.pretrainings:
        images = images_of(pretraining)
        epochs = pretraining.epochs / 10 * (settings.epochs or 10)
        hours = PAPER_HOURS * SHOTS * epochs * images / _PAPER_IMAGES
        found.append(Cost(f"pretrain {pretraining.name}", hours, f"{epochs:g} epochs, {images} pictures a window"))
    images = LABELLED_SHOTS * KEYFRAMES
    hours = len(work.encoders) * PAPER_HOURS * images / 3 / _PAPER_IMAGES
    how = f"{len(work.encoders)} encoders x {images:,} keyframes, a third of training on one"
    found.append(Cost("encode the labelled films", hours, how))
    if work.tuned:
        windows = TRAINING_SHOTS * EPOCHS * settings.seeds
        # In multiplications: training on an image takes 3 x inference; on a window, 3 x parameters x shots.
        each = _CRN_PARAMETERS * (_WINDOW + 1) / _RESNET50
        hours = len(work.tuned) * PAPER_HOURS * windows * each / _PAPER_IMAGES
        how = f"{len(work.tuned)} networks x {settings.seeds} seeds x {EPOCHS} epochs, as the paper's transformer"
        found.append(Cost("finetune", hours, how))
    return found


def images_of(pretraining: Pretraining) -> int:
    """Images that the encoder reads for one window."""
    options = {name: value for name, value in pretraining.options.items() if name != "neighbours"}
    neighbours = pretraining.options.get("neighbours", NEIGHBOURS)
    windows = PretextWindows(np.zeros(1, np.int64), PretextSettings(**options), neighbours, 0)
    return len(windows.dense) + len(windows.slow)


def disk(settings: ReproduceSettings) -> list[Need]:
    """Of MovieNet, and of the files that a table leaves."""
    work = work_of(settings)
    encoders, runs, tuned = len(work.encoders), len(work.pretrainings), len(work.tuned)
    # The training state has weights, momentum and heads, beside the model itself.
    run = 4 * (_ENCODER_PARAMETERS + _CRN_PARAMETERS) * 3 / 1e9
    seeds = 4 * (_CRN_PARAMETERS * (settings.seeds + 3) + _ENCODER_PARAMETERS * settings.seeds) / 1e9
    images, features = SHOTS * KEYFRAMES, LABELLED_SHOTS * WIDTH * 4
    return [
        Need("keyframes", images * JPEG_BYTES / 1e9, f"{images:,} of about {JPEG_BYTES // 1000} KB"),
        Need("index", SHOTS * 65 / 1e9, f"{SHOTS:,} shots"),
        Need("features", encoders * features / 1e9, f"{encoders} encoders x {LABELLED_SHOTS:,} shots x {WIDTH}"),
        Need("pre-trained runs", runs * run, f"{runs} runs with their states"),
        Need(
            "fine-tuned runs", tuned * seeds, f"{tuned} networks x {settings.seeds} seeds, each model with its encoder"
        ),
    ]
