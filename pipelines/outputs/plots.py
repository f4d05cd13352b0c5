"""What all plots share: file formats, style, and atomic writing.

Nothing here needs a display: figures are made without pyplot, and no state is left behind.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import BasslError, check_installed
from pipelines.files import write_atomically

if TYPE_CHECKING:  # start-up time: matplotlib takes half a second, and a path is checked without it
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
_DOTS = 150  # per inch
_MOST_DOTS = 2**16 - 1  # on a side; matplotlib draws no more
# With a date, equal plots would be different files.
_METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def check_plot(path: Path) -> None:
    """Check that a plot can be written under that name, before any work is done for it. Raises BasslError: it ends in
    something else than .png, .svg or .pdf; or matplotlib is not installed."""
    check_installed("matplotlib", "a plot")
    if path.suffix.lower() not in FORMATS:
        raise BasslError(f"{path}: a plot is a .png, .svg or .pdf file; name one")


@contextmanager
def plot_style() -> Iterator[None]:
    """The style in which plots are drawn and saved, whatever the user's own matplotlibrc says."""
    from matplotlib import style  # start-up time: matplotlib

    settings = {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # the first ships with matplotlib; an SVG names all
        "font.size": 9,
        # A name with dollar signs is not a formula.
        "text.parse_math": False,
        # Text stays text, to be searched and edited. The salt makes equal plots equal files.
        "svg.fonttype": "none",
        "svg.hashsalt": "bassl",
        "pdf.fonttype": 42,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
    }
    with style.context(["default", settings]):
        yield


def shorten(name: str, most: int = 48) -> str:
    """A name as it can be drawn: on one line, unprintable characters replaced, shortened in the middle."""
    text = "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in name)
    return text if len(text) <= most else f"{text[: most // 2 - 1]}…{text[-(most // 2) :]}"


def save_plot(path: Path, figure: Figure) -> tuple[str, ...]:
    """Write a figure in the format of the path's ending; equal figures are equal files, byte for byte. Returns a line
    on characters that could not be drawn, if there are any (in an SVG the font of the viewer draws them). Raises
    BasslError for another ending, a figure that is too large, or a path that cannot be written."""
    check_plot(path)
    if max(figure.get_size_inches()) * _DOTS > _MOST_DOTS:
        raise BasslError(f"{path}: there is too much to draw for one figure; draw less in each")
    kind = path.suffix.lower().removeprefix(".")
    buffer = BytesIO()
    with plot_style(), warnings.catch_warnings(record=True) as caught:
        figure.savefig(buffer, format=kind, dpi=_DOTS, metadata=_METADATA.get(kind))
    missing = set()
    for one in caught:
        if glyph := re.match(r"Glyph (\d+) ", str(one.message)):
            missing.add(chr(int(glyph[1])))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    write_atomically(path, buffer.getvalue())
    if not missing or kind == "svg":
        return ()
    return (f"{path}: its font has no {' '.join(sorted(missing))}; an .svg leaves the font to the viewer",)
