"""Input and output files of figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from pipelines.errors import BasslError, count
from pipelines.files import check_inputs_kept, check_writable, is_file
from pipelines.outputs import plots
from pipelines.stages.figure.settings import FigureResult


def check_output(path: Path, inputs: Iterable[Path | None]) -> None:
    """Raises BasslError, one line, if the figure cannot be written or would replace an input."""
    plots.check_plot(path)
    check_writable(path)
    check_inputs_kept((path,), (file for file in inputs if file is not None and is_file(file)))


def save_figure(path: Path, figure: Figure) -> FigureResult:
    """Write a figure in the format of the path's extension."""
    return FigureResult(path, plots.save_plot(path, figure))


def model_names(paths: Sequence[Path], labels: Sequence[str]) -> list[str]:
    """The names of files or run folders in a figure: the labels, or the file names, or the paths if these are not
    unique. Raises BasslError if there are more or fewer labels than paths, or two equal names."""
    if labels and len(labels) != len(paths):
        raise BasslError(
            f"{count(len(labels), 'label')} for {count(len(paths), 'input')}; give one label per input, in order"
        )
    short = [path.parent.name if path.name == "model.safetensors" else _stem(path) for path in paths]
    names = list(labels) or (short if len(set(short)) == len(short) else [str(path) for path in paths])
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise BasslError(f"{duplicate}: two inputs have this name; give each its own with --label")
    return names


def _stem(path: Path) -> str:
    extensions = (".json", ".safetensors")
    return path.stem if path.suffix.lower() in extensions else path.name or str(path)
