"""Training curves of runs, from their logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from pipelines.errors import BasslError
from pipelines.outputs.plots import BLACK, BLUE, COLUMNS, GREEN, ORANGE, PURPLE, SKY, VERMILLION, plot_style, shorten
from pipelines.training.run_folder import LOG, VALIDATION, read_log

_NO_CURVES = ("step", "epoch", "seed", "windows_per_second", "shots_per_second", "waiting")
_LINES = (BLUE, VERMILLION, GREEN, PURPLE, BLACK, ORANGE, SKY)
_DASHES = ("-", "--", "-.", ":")
_FEW = 20  # curves with at most this many points have markers, because a single point has no line

Curve = NDArray[np.float64]
"""(4, N): steps, and the mean, minimum and maximum over seeds."""


def curves(runs: Sequence[Path], names: Sequence[str]) -> Figure:
    """Return the figure of :func:`pipelines.stages.figure.draw_curves`, with the ``names`` of the runs: a panel per
    quantity, a line per run, and a band from minimum to maximum over seeds."""
    panels: dict[str, dict[str, Curve]] = {}
    for name, run in zip(names, runs, strict=True):
        for quantity, curve in _curves(run).items():
            panels.setdefault(quantity, {})[name] = curve
    columns = min(len(panels), COLUMNS)
    rows = -(-len(panels) // columns)
    longest = max(float(curve[0, -1]) for lines in panels.values() for curve in lines.values())
    looks: dict[str, dict[str, Any]] = {
        name: {"color": _LINES[i % len(_LINES)], "linestyle": _DASHES[i % len(_DASHES)], "linewidth": 1.4}
        for i, name in enumerate(names)
    }
    with plot_style():
        figure = Figure(figsize=(max(2.5 * columns, 4.5), 1.9 * rows + 0.5), layout="constrained")
        for number, (quantity, lines) in enumerate(panels.items()):
            panel = figure.add_subplot(rows, columns, number + 1)
            marker = "o" if max(curve.shape[1] for curve in lines.values()) <= _FEW else ""
            for name, (steps, mean, low, high) in lines.items():
                panel.plot(steps, mean, marker=marker, markersize=3, **looks[name])
                if (low < high).any():
                    panel.fill_between(steps, low, high, color=looks[name]["color"], alpha=0.18, linewidth=0)
            panel.set_title(shorten(quantity.replace("_", " ")), fontsize=9)
            panel.set_xlim(0, longest * 1.02)
            panel.locator_params("x", nbins=4, integer=True)
            panel.xaxis.set_major_formatter("{x:,.0f}")
            if number >= len(panels) - columns:
                panel.set_xlabel("step")
        handles, labels = [Line2D([], [], **look) for look in looks.values()], [shorten(name) for name in names]
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(names), 3), handlelength=3)
    return figure


def _curves(run: Path) -> dict[str, Curve]:
    """Return the curves of a run by quantity: first from the log, then from validation."""
    if not run.is_dir():
        raise BasslError(f"{run}: no such folder of a run")
    logs = {name: read_log(run / name) for name in (LOG, VALIDATION) if (run / name).exists()}
    if LOG not in logs:
        raise BasslError(f"{run}: contains no {LOG}; give the folder of a run of pretrain or finetune")
    if not logs[LOG]:
        raise BasslError(f"{run / LOG}: has no rows yet")
    # Steps continue from seed to seed; here each seed begins at 0.
    last = {row.get("seed", 0.0): row["step"] for row in logs[LOG]}
    offsets = dict(zip(last, [0.0, *list(last.values())[:-1]], strict=True))
    curves: dict[str, Curve] = {}
    for rows in logs.values():
        for quantity in rows[0] if rows else ():
            if quantity not in _NO_CURVES:
                values: dict[float, list[float]] = {}
                for row in rows:
                    values.setdefault(row["step"] - offsets.get(row.get("seed", 0.0), 0.0), []).append(row[quantity])
                seeds = [(step, np.mean(some), min(some), max(some)) for step, some in sorted(values.items())]
                curves[quantity] = np.array(seeds).T
    return curves
