"""The files that figures are drawn from and written to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from pipelines.errors import BasslError, count
from pipelines.files import check_inputs_kept, check_writable, is_file
from pipelines.outputs import plots
from pipelines.stages.figure.settings import FigureResult


def check_output(path: Path, inputs: Iterable[Path | None]) -> None:
    """Raises BasslError, one line, where no figure can be written, or it would replace an input."""
    plots.check_plot(path)
    check_writable(path)
    check_inputs_kept((path,), (one for one in inputs if one is not None and is_file(one)))


def save_figure(path: Path, figure: Figure) -> FigureResult:
    """Write a figure in the format of the path's ending."""
    return FigureResult(path, plots.save_plot(path, figure))


def model_names(paths: Sequence[Path], labels: Sequence[str]) -> list[str]:
    """The names of files or run folders in a figure: the labels, or as much of their paths as makes them different.
    Raises BasslError for another number of labels than of paths, or two equal names."""
    if labels and len(labels) != len(paths):
        raise BasslError(
            f"{count(len(labels), 'label')} given for {count(len(paths), 'thing')} to draw; give each one, in order"
        )
    short = [path.parent.name if path.name == "model.safetensors" else _stem(path) for path in paths]
    names = list(labels) or (short if len(set(short)) == len(short) else [str(path) for path in paths])
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BasslError(f"{twice}: is named twice; tell them apart with --label")
    return names


def _stem(path: Path) -> str:
    known = (".h5", ".json", ".safetensors")
    return path.stem if path.suffix.lower() in known else path.name or str(path)
