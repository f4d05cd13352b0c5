"""What a stage that takes several films tells of each, while it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar


class Ended(Protocol):
    """What became of a film: ``done``, ``kept`` (it was there already) or ``failed`` with one line in ``error``."""

    @property
    def status(self) -> Literal["done", "kept", "failed"]: ...
    @property
    def error(self) -> str: ...


E_co = TypeVar("E_co", bound=Ended, covariant=True)


@dataclass(frozen=True)
class FilmProgress(Generic[E_co]):
    """How far one film is.

    Attributes:
        video_id: which film.
        done: seconds read.
        total: seconds in all; None where that is not known.
        frames: read; 0 where they are not counted.
        result: None until it has ended.
    """

    video_id: str
    done: float = 0.0
    total: float | None = None
    frames: int = 0
    result: E_co | None = None
