"""Progress of stages: what they report to their caller while they work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

ReportProgress = Callable[[str, float, float | None], None]
"""Called with what is being done, how much of it is done, and how much there is in all (None: not known)."""


class Ended(Protocol):
    """The result of one film of several: ``done``, ``kept`` (there already) or ``failed`` with a line in ``error``."""

    @property
    def status(self) -> Literal["done", "kept", "failed"]: ...
    @property
    def error(self) -> str: ...


E_co = TypeVar("E_co", bound=Ended, covariant=True)


@dataclass(frozen=True)
class FilmProgress(Generic[E_co]):
    """Progress of one film of several.

    Attributes:
        video_id: id of the film.
        done: seconds read.
        total: seconds in all; None where that is not known.
        frames: frames read; 0 where they are not counted.
        result: None until the film is finished.
    """

    video_id: str
    done: float = 0.0
    total: float | None = None
    frames: int = 0
    result: E_co | None = None


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of pre-training or fine-tuning.

    Attributes:
        step, steps: steps done and in all, over all seeds.
        epoch, epochs: number of the epoch, from 1, and epochs in all.
        losses: by task, and ``loss``, their weighted sum; of the last step, or the mean since the last report.
        rate: learning rate of the last step.
        speed: windows (pre-training) or shots (fine-tuning) a second, over all processes.
        waiting: share of the time that was spent waiting for data.
        validation: metrics on the validation split; after an epoch only.
        seed, seeds: number of the seed, from 1, and seeds in all.
        note: one line that the user should know; the other fields then say nothing.
        unit: what ``speed`` counts.
    """

    step: int = 0
    steps: int = 0
    epoch: int = 0
    epochs: int = 0
    losses: dict[str, float] = field(default_factory=dict)
    rate: float = 0.0
    speed: float = 0.0
    waiting: float = 0.0
    validation: dict[str, float] = field(default_factory=dict)
    seed: int = 1
    seeds: int = 1
    note: str = ""
    unit: Literal["windows", "shots"] = "windows"

    @property
    def ends_epoch(self) -> bool:
        """Whether this is the last step of an epoch."""
        return self.step % max(1, self.steps // (self.epochs * self.seeds)) == 0
