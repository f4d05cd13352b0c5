"""What all plots share: file formats, style, colors, and atomic writing.

Figures are drawn without pyplot, so no display is needed and no global state changes.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import BasslError, check_installed
from pipelines.files import write_atomically

if TYPE_CHECKING:  # start-up time: matplotlib takes half a second, and a path is checked without it
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

FORMATS = (".png", ".svg", ".pdf")
_DOTS = 150  # per inch
_MAX_DOTS = 2**16 - 1  # on a side: matplotlib's limit
# With a date, equal plots would be different files.
_METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}

# Colors by Okabe and Ito ("Color Universal Design", 2008), safe for color blindness. Shapes or brightness differ too,
# so that a print in gray is readable.
BLACK, BLUE, VERMILLION, ORANGE = "#000000", "#0072b2", "#d55e00", "#e69f00"
GREEN, PURPLE, SKY = "#009e73", "#cc79a7", "#56b4e9"
SIDES = (BLUE, ORANGE)  # of neighboring scenes: a dark and a light color
COLUMNS = 4  # panels side by side
WIDTH = 10.0  # of a figure, in inches


def check_plot(path: Path) -> None:
    """Check the name of a plot before anything is computed. Raises BasslError: its extension is not .png, .svg or .pdf,
    or matplotlib is not installed."""
    check_installed("matplotlib", "a plot")
    if path.suffix.lower() not in FORMATS:
        raise BasslError(f"{path}: unknown extension {path.suffix}; a plot is a .png, .svg or .pdf file")


@contextmanager
def plot_style() -> Iterator[None]:
    """The style in which plots are drawn and saved, regardless of the user's matplotlibrc."""
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


def shorten(name: str, limit: int = 48) -> str:
    """A name that can be drawn: on one line, unprintable characters replaced, shortened in the middle."""
    text = "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in name)
    return text if len(text) <= limit else f"{text[: limit // 2 - 1]}…{text[-(limit // 2) :]}"


def save_plot(path: Path, figure: Figure) -> tuple[str, ...]:
    """Write a figure in the format of the path's extension; equal figures are equal files, byte for byte. Returns a
    warning if characters could not be drawn (in an SVG the viewer's font draws them). ``path``: after `check_plot`.
    Raises BasslError for a figure that is too large, or a path that cannot be written."""
    if max(figure.get_size_inches()) * _DOTS > _MAX_DOTS:
        raise BasslError(f"{path}: too much to draw in one figure; draw less in each")
    kind = path.suffix.lower().removeprefix(".")
    buffer = BytesIO()
    with plot_style(), warnings.catch_warnings(record=True) as caught:
        figure.savefig(buffer, format=kind, dpi=_DOTS, metadata=_METADATA.get(kind))
    missing = set()
    for warning in caught:
        if glyph := re.match(r"Glyph (\d+) ", str(warning.message)):
            missing.add(chr(int(glyph[1])))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    write_atomically(path, buffer.getvalue())
    if not missing or kind == "svg":
        return ()
    return (f"{path}: its font has no {' '.join(sorted(missing))}; an .svg leaves the font to the viewer",)


def scene_ranges(M: int, ends: Sequence[int] | None) -> list[tuple[int, int]]:
    """Half-open ranges of the scenes of M shots; none without labels."""
    if ends is None:
        return []
    starts = [0, *(end + 1 for end in ends if end < M - 1)]
    return list(zip(starts, [*starts[1:], M], strict=True))


def aspect(images: Sequence[NDArray[np.uint8]]) -> float:
    """Height over width of the first image; all images of a video have one size."""
    height, width = images[0].shape[:2]
    return float(height / width)


def draw_images(panel: Axes, images: Sequence[NDArray[np.uint8]]) -> None:
    """Draw image i from i to i + 1 on the x axis, with its aspect ratio."""
    height, gap = aspect(images), 0.03
    for i, image in enumerate(images):
        panel.imshow(image, extent=(i + gap, i + 1 - gap, gap, height - gap), interpolation="antialiased")
    panel.set_xlim(0, len(images))
    panel.set_ylim(0, height)
    panel.set_aspect("equal")
    panel.set_axis_off()
