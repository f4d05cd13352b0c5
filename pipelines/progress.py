"""Progress of stages: what they report to their caller while they work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

ReportProgress = Callable[[str, float, float | None], None]
"""Called with what is being done, how much of it is done, and how much there is in all (None: not known)."""


class VideoOutcome(Protocol):
    """The result of one video of several: ``done``, ``kept`` (there already) or ``failed`` with a line in ``error``."""

    @property
    def status(self) -> Literal["done", "kept", "failed"]: ...
    @property
    def error(self) -> str: ...


E_co = TypeVar("E_co", bound=VideoOutcome, covariant=True)


@dataclass(frozen=True)
class VideoProgress(Generic[E_co]):
    """Progress of one video of several."""

    video_id: str
    done: float = 0.0  # seconds read
    total: float | None = None  # seconds in all; None where that is not known
    frames: int = 0  # frames read; 0 where they are not counted
    result: E_co | None = None  # None until the video is finished


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of pre-training or fine-tuning."""

    step: int = 0  # done, over all seeds
    steps: int = 0  # in all, over all seeds
    epoch: int = 0  # from 1
    epochs: int = 0
    # by task, and ``loss``, their weighted sum; of the last step, or the mean since the last report
    losses: dict[str, float] = field(default_factory=dict)
    rate: float = 0.0  # learning rate of the last step
    speed: float = 0.0  # windows (pre-training) or shots (fine-tuning) a second, over all processes
    waiting: float = 0.0  # share of the time that was spent waiting for data
    validation: dict[str, float] = field(default_factory=dict)  # metrics on the validation split; after an epoch only
    seed: int = 1  # its number, from 1
    seeds: int = 1
    note: str = ""  # one line that the user should know; the other fields then say nothing
    warning: bool = False  # whether the note is about what may be wrong with the result
    unit: Literal["windows", "shots"] = "windows"  # what ``speed`` counts

    @property
    def ends_epoch(self) -> bool:
        """Whether this is the last step of an epoch."""
        return self.step % max(1, self.steps // (self.epochs * self.seeds)) == 0
