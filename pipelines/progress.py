"""What stages report to their caller: how far they are, and the result of each video."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ReportProgress = Callable[[str, float, float | None], None]
"""Called with what is being done, how much of it is done, and the total (None: unknown)."""


def no_progress(stage: str, done: float, total: float | None) -> None:
    """Do nothing, as the `ReportProgress` of a caller that wants no reports."""


Status = Literal["done", "regrouped", "kept", "failed"]
"""How the work on a video ended. Regrouped: the scenes follow from stored scores; kept: the output existed."""


@dataclass(frozen=True)
class VideoResult:
    """Result of one video in a stage that takes several. Numbers that the stage does not count are 0."""

    video_id: str
    video: Path  # the input
    output: Path
    status: Status
    scenes: int = 0
    shots: int = 0
    frames: int = 0
    duration: float = 0.0  # seconds
    warnings: tuple[str, ...] = ()  # lines on what may be wrong with the output
    notes: tuple[str, ...] = ()  # lines on what is not
    error: str = ""  # one line, which begins with the path of the video or of a file that is made of it
    corrected: bool = False  # whether its scenes were corrected by hand


@dataclass(frozen=True)
class VideoProgress:
    """Progress of one video of several."""

    video_id: str
    done: float = 0.0  # seconds read
    total: float | None = None  # seconds in all; None: unknown
    result: VideoResult | None = None  # None until the video is finished


ReportVideo = Callable[[VideoProgress], None]  # called with the progress of each video, and then with its result


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of pre-training or fine-tuning."""

    step: int = 0  # done, over all seeds
    steps: int = 0  # in all, over all seeds
    epoch: int = 0  # from 1
    epochs: int = 0
    losses: dict[str, float] = field(default_factory=dict)  # by task, and ``loss``, their weighted sum
    rate: float = 0.0  # learning rate of the last step
    speed: float = 0.0  # windows (pre-training) or shots (fine-tuning) a second, over all processes
    waiting: float = 0.0  # share of the time that was spent waiting for data
    validation: dict[str, float] = field(default_factory=dict)  # metrics on the validation split; after an epoch only
    seed: int = 1  # its number, from 1
    seeds: int = 1
    note: str = ""  # one line that the user should know; the other fields then say nothing
    warning: bool = False  # whether the note is about what may be wrong with the result
    unit: Literal["windows", "shots"] = "windows"  # what ``speed`` counts
