"""The result of pre-training; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PretrainResult:
    """What a run left.

    Attributes:
        model: its file.
        step, steps: taken, of how many.
        losses: means over the last epoch that was taken part in, by task, and ``loss``.
        validation: the last measures.
        stopped: whether it was asked to stop before its end; ``resume`` then goes on.
    """

    model: Path
    step: int
    steps: int
    losses: dict[str, float]
    validation: dict[str, float]
    stopped: bool
