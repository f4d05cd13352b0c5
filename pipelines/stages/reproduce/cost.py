"""What a table costs on MovieNet at full size: hours of a V100 and gigabytes, scaled from what the paper says.

The paper: pre-training BaSSL for ten epochs on MovieNet takes 16 V100 GPUs less than two days (appendix A). That is at
most 768 hours for 1.6 million windows of 17 shots and two more of the slow sequence, ten times. All else follows from
the number of pictures that the encoder sees, or from the multiplications, at the same pace.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.stages.reproduce import ReproduceSettings, is_wanted
from pipelines.stages.reproduce.rows import ROWS, TABLES, Pretraining, System

PAPER_HOURS = 16 * 48.0
SHOTS, FILMS = 1_600_000, 1_100
LABELLED_SHOTS, LABELLED_FILMS = 500_000, 318
TRAINING_SHOTS = LABELLED_SHOTS * 190 // 318
KEYFRAMES, WIDTH, NEIGHBOURS, EPOCHS = 3, 2048, 8, 20
JPEG_BYTES = 22_000
"""Of a key-frame of 240 lines at quality 90, as it is in Big Buck Bunny; films differ by half and more."""
_WINDOW = 2 * NEIGHBOURS + 1
_PAPER_PICTURES = SHOTS * 10 * (_WINDOW + 2)
_RESNET50 = 4.1e9  # multiplications for a picture of 224 x 224 (He et al. 2016)
_ENCODER_NUMBERS = 23.5e6
_CRN_NUMBERS = 15.8e6  # the paper's transformer, its input layer included


@dataclass(frozen=True)
class Cost:
    """Of a stage, in hours of one V100, and how that is reckoned."""

    stage: str
    hours: float
    how: str


@dataclass(frozen=True)
class Need:
    """Of disk."""

    what: str
    gigabytes: float
    how: str


@dataclass(frozen=True)
class Work:
    """What the rows of a table take, each once, however many of them share it.

    Attributes:
        pretrainings: runs of pre-training.
        encoders: names of the encoders that the labelled films are encoded by.
        tuned: networks that are fine-tuned.
    """

    pretrainings: tuple[Pretraining, ...]
    encoders: frozenset[str]
    tuned: tuple[System, ...]


def work_of(settings: ReproduceSettings) -> Work:
    """The work behind the wanted rows of a table."""
    rows = [row for name in TABLES[settings.table] for row in ROWS[name] if is_wanted(settings, row)]
    systems = {cell.system.name: cell.system for row in rows for cell in row.cells.values()}.values()
    return Work(
        tuple({one.pretraining.name: one.pretraining for one in systems if one.pretraining is not None}.values()),
        frozenset(one.encoder or (one.pretraining and one.pretraining.name) or "ImageNet" for one in systems),
        tuple(one for one in systems if one.baseline is None and one.finetune),
    )


def costs(settings: ReproduceSettings) -> list[Cost]:
    """Of the stages that need GPUs, those that several rows share once."""
    work = work_of(settings)
    found = []
    for pretraining in work.pretrainings:
        pictures = pictures_of(pretraining)
        epochs = pretraining.epochs / 10 * (settings.epochs or 10)
        hours = PAPER_HOURS * SHOTS * epochs * pictures / _PAPER_PICTURES
        found.append(Cost(f"pretrain {pretraining.name}", hours, f"{epochs:g} epochs, {pictures} pictures a window"))
    pictures = LABELLED_SHOTS * KEYFRAMES
    hours = len(work.encoders) * PAPER_HOURS * pictures / 3 / _PAPER_PICTURES
    how = f"{len(work.encoders)} encoders x {pictures:,} key-frames, a third of training on one"
    found.append(Cost("encode the labelled films", hours, how))
    if work.tuned:
        windows = TRAINING_SHOTS * EPOCHS * settings.seeds
        # In multiplications: of training on a picture, 3 x those of seeing it; of a window, 3 x numbers x shots.
        each = _CRN_NUMBERS * (_WINDOW + 1) / _RESNET50
        hours = len(work.tuned) * PAPER_HOURS * windows * each / _PAPER_PICTURES
        how = f"{len(work.tuned)} networks x {settings.seeds} seeds x {EPOCHS} epochs, as the paper's transformer"
        found.append(Cost("finetune", hours, how))
    return found


def pictures_of(pretraining: Pretraining) -> int:
    """Pictures that the encoder sees for one window."""
    import numpy as np

    from pipelines.pretext.settings import PretextSettings
    from pipelines.stages.pretrain.data import WindowChooser

    options = {name: value for name, value in pretraining.options.items() if name != "neighbours"}
    neighbours = pretraining.options.get("neighbours", NEIGHBOURS)
    chooser = WindowChooser(np.zeros(1, np.int64), PretextSettings(**options), neighbours, 0)
    return len(chooser.dense) + len(chooser.slow)


def disk(settings: ReproduceSettings) -> list[Need]:
    """What MovieNet takes, and what a table leaves."""
    work = work_of(settings)
    encoders, runs, tuned = len(work.encoders), len(work.pretrainings), len(work.tuned)
    # A state has the weights, the momentum and the heads beside the model itself.
    run = 4 * (_ENCODER_NUMBERS + _CRN_NUMBERS) * 3 / 1e9
    return [
        Need(
            "key-frames",
            SHOTS * KEYFRAMES * JPEG_BYTES / 1e9,
            f"{SHOTS * KEYFRAMES:,} of about {JPEG_BYTES // 1000} KB",
        ),
        Need("index", SHOTS * 65 / 1e9, f"{SHOTS:,} shots"),
        Need(
            "features",
            encoders * LABELLED_SHOTS * WIDTH * 4 / 1e9,
            f"{encoders} encoders x {LABELLED_SHOTS:,} shots x {WIDTH}",
        ),
        Need("pre-trained runs", runs * run, f"{runs} runs with their states"),
        Need(
            "fine-tuned runs",
            tuned * 4 * (_CRN_NUMBERS * (settings.seeds + 3) + _ENCODER_NUMBERS * settings.seeds) / 1e9,
            f"{tuned} networks x {settings.seeds} seeds, each model with its encoder",
        ),
    ]
