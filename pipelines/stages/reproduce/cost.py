"""The estimated cost of a table on MovieNet at full size: V100 hours and gigabytes, scaled from the paper's figures.

Pre-training BaSSL for ten epochs on MovieNet takes 16 V100 GPUs less than two days (appendix A). That is at most 768
hours for ten times 1.6 million windows of 17 shots and two more of the slow sequence. Everything else is scaled by the
number of images that the encoder reads, or by multiplications, at the same rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pipelines.pretext.settings import PretextSettings
from pipelines.stages.pretrain.data import PretextWindows
from pipelines.stages.reproduce.data import MOVIENET, movienet_data
from pipelines.stages.reproduce.planning import Planner, chosen_rows
from pipelines.stages.reproduce.settings import ReproduceSettings
from pipelines.stages.reproduce.steps import Step, in_order

PAPER_HOURS = 16 * 48.0
SHOTS, VIDEOS = 1_600_000, 1_100
LABELLED_SHOTS = 500_000
TRAINING_SHOTS = LABELLED_SHOTS * 190 // 318
KEYFRAMES, WIDTH, NEIGHBOURS, EPOCHS = 3, 2048, 8, 20
JPEG_BYTES = 22_000
"""Of a keyframe of 240 lines at quality 90, measured on Big Buck Bunny; videos differ by half and more."""
_WINDOW = 2 * NEIGHBOURS + 1
_PAPER_IMAGES = SHOTS * 10 * (_WINDOW + 2)
_RESNET50 = 4.1e9  # multiplications for an image of 224 x 224 (He et al. 2016)
_ENCODER_PARAMETERS = 23.5e6
_CRN_PARAMETERS = 15.8e6  # the paper's transformer, its input layer included


@dataclass(frozen=True)
class Cost:
    """Computing time of a step, and how it is estimated."""

    stage: str
    images: float  # images in pre-training that take as long
    basis: str

    @property
    def hours(self) -> float:
        """Of one V100."""
        return PAPER_HOURS * self.images / _PAPER_IMAGES


@dataclass(frozen=True)
class DiskSpace:
    """Disk space."""

    what: str
    gigabytes: float
    basis: str


def needs(settings: ReproduceSettings) -> tuple[list[Cost], list[DiskSpace]]:
    """What the wanted rows of a table need on MovieNet at full size: hours of the steps that need GPUs, and disk space
    of MovieNet and of the files that the table leaves. Steps that several rows share are counted once."""
    data = movienet_data(MOVIENET, settings.output / "work" / "movienet")
    finals = [
        final
        for _, protocol, rows in chosen_rows(settings, data)
        for row, wanted in rows
        if wanted
        for final in Planner(data, protocol, settings, download=False).final_steps(row).values()
    ]
    steps = in_order([final for final in finals if isinstance(final, Step)])

    def of(command: str) -> list[Step]:
        return [step for step in steps if step.command == command]

    runs, tuned = of("pretrain"), of("finetune")
    # Names of the encoders of the labelled videos, or of the runs that they are of.
    names = {str(step.options.get("encoder") or step.options["init"]) for step in of("encode") + tuned}
    names |= {str(step.output) for step in runs} & {step.subjects[0] for step in of("score")}
    encoders = len(names)
    return _hours(settings, runs, encoders, len(tuned)), _disk(settings, len(runs), encoders, len(tuned))


def _hours(settings: ReproduceSettings, pretrainings: Sequence[Step], encoders: int, tuned: int) -> list[Cost]:
    found = []
    for step in pretrainings:
        images, epochs = images_of(step.options), step.options["epochs"]
        assert step.output is not None
        basis = f"{epochs} epochs, {images} images per window"
        found.append(Cost(f"pretrain {step.output.name}", SHOTS * epochs * images, basis))
    basis = f"{encoders} encoders x {LABELLED_SHOTS * KEYFRAMES:,} keyframes, a third of training on one"
    found.append(Cost("encode the labelled videos", encoders * LABELLED_SHOTS * KEYFRAMES / 3, basis))
    if tuned:
        windows = TRAINING_SHOTS * EPOCHS * settings.seeds * tuned
        # In multiplications: training on an image takes 3 x inference; on a window, 3 x parameters x shots.
        each = _CRN_PARAMETERS * (_WINDOW + 1) / _RESNET50
        basis = f"{tuned} networks x {settings.seeds} seeds x {EPOCHS} epochs, as the paper's transformer"
        found.append(Cost("finetune", windows * each, basis))
    return found


def images_of(options: Mapping[str, Any]) -> int:
    """Images that the encoder reads for one window in pre-training with these options."""
    pretext = {field.name: options[field.name] for field in fields(PretextSettings) if field.name in options}
    neighbours = options.get("neighbours", NEIGHBOURS)
    windows = PretextWindows(np.zeros(1, np.int64), PretextSettings(**pretext), neighbours, 0)
    return len(windows.dense) + len(windows.slow)


def _disk(settings: ReproduceSettings, runs: int, encoders: int, tuned: int) -> list[DiskSpace]:
    # The training state has weights, momentum and heads, beside the model itself.
    run = 4 * (_ENCODER_PARAMETERS + _CRN_PARAMETERS) * 3 / 1e9
    seeds = 4 * (_CRN_PARAMETERS * (settings.seeds + 3) + _ENCODER_PARAMETERS * settings.seeds) / 1e9
    images, features = SHOTS * KEYFRAMES, LABELLED_SHOTS * WIDTH * 4
    return [
        DiskSpace("keyframes", images * JPEG_BYTES / 1e9, f"{images:,} of about {JPEG_BYTES // 1000} KB"),
        DiskSpace("index", SHOTS * 65 / 1e9, f"{SHOTS:,} shots"),
        DiskSpace("features", encoders * features / 1e9, f"{encoders} encoders x {LABELLED_SHOTS:,} shots x {WIDTH}"),
        DiskSpace("pre-trained runs", runs * run, f"{runs} runs with their states"),
        DiskSpace(
            "fine-tuned runs", tuned * seeds, f"{tuned} networks x {settings.seeds} seeds, each model with its encoder"
        ),
    ]
