"""The result of fine-tuning; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FinetuneResult:
    """What a run left.

    Attributes:
        model: the file of the chosen seed's model.
        report: the file with all measures of all seeds.
        step, steps: taken, of how many.
        selected_on: what epochs were chosen on: ``val``, ``test`` or ``last epoch``.
        mean, std: of the test metrics over the seeds (sample deviation; empty for one seed), or where there is no test
            split of the validation metrics.
        tested_on: the split that ``mean`` is of; None where there is none.
        notes: what the user should know of the result, a line each.
        stopped: whether it was asked to stop before its end; ``resume`` then goes on.
    """

    model: Path
    report: Path
    step: int
    steps: int
    selected_on: str
    mean: dict[str, float]
    std: dict[str, float]
    tested_on: str | None
    notes: tuple[str, ...]
    stopped: bool
