"""Training curves of runs, from their logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pipelines.errors import BasslError
from pipelines.outputs.figures.curves import Curve, curve_figure
from pipelines.stages.figure.files import check_output, model_names, save_figure
from pipelines.stages.figure.settings import CurveSettings, FigureResult
from pipelines.training.run_folder import LOG, VALIDATION, read_log

_POSITIONS = ("step", "epoch", "seed")
_SPEEDS = ("windows_per_second", "shots_per_second", "waiting")


def curves(runs: Sequence[Path], output: Path, settings: CurveSettings) -> FigureResult:
    """Draw the figure, see :func:`pipelines.stages.figure.draw_curves`."""
    check_output(output, runs)
    if not runs:
        raise BasslError("nothing to draw: give the folder of a run")
    names = model_names(runs, settings.labels)
    panels: dict[str, dict[str, Curve]] = {}
    for name, run in zip(names, runs, strict=True):
        for quantity, curve in _curves(run).items():
            panels.setdefault(quantity, {})[name] = curve
    return save_figure(output, curve_figure(panels, names))


def _curves(run: Path) -> dict[str, Curve]:
    """The curves of a run by quantity: those of the log, then those of validation."""
    if not run.is_dir():
        raise BasslError(f"{run}: no such folder of a run")
    logs = {name: read_log(run / name) for name in (LOG, VALIDATION) if (run / name).exists()}
    if LOG not in logs:
        raise BasslError(f"{run}: contains no {LOG}; give the folder of a run of pretrain or finetune")
    if not logs[LOG]:
        raise BasslError(f"{run / LOG}: has no rows yet")
    # Steps continue from seed to seed; here each seed begins at 0.
    last: dict[float, float] = {}
    for row in logs[LOG]:
        last[row.get("seed", 0.0)] = row["step"]
    offsets = dict(zip(last, [0.0, *list(last.values())[:-1]], strict=True))
    curves: dict[str, Curve] = {}
    for rows in logs.values():
        for quantity in rows[0] if rows else ():
            if quantity not in (*_POSITIONS, *_SPEEDS):
                curves[quantity] = _curve(rows, quantity, offsets)
    return curves


def _curve(rows: Sequence[Mapping[str, float]], quantity: str, offsets: Mapping[float, float]) -> Curve:
    values: dict[float, list[float]] = {}
    for row in rows:
        values.setdefault(row["step"] - offsets.get(row.get("seed", 0.0), 0.0), []).append(row[quantity])
    steps = sorted(values)
    mean, low, high = (np.array([reduce(values[step]) for step in steps]) for reduce in (np.mean, np.min, np.max))
    return Curve(np.array(steps), mean, low, high)
