"""Figures from a user's own videos, models and runs: the figures of the paper's appendix, and training curves. They are
drawn without pyplot, so no display is needed and no global state changes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import cycle, pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from annotated_doc import Doc

from pipelines.errors import BasslError, BasslWarning, check_installed, count, explain_missing_extra, printable
from pipelines.files import as_paths, check_output, write_atomically
from pipelines.options import Settings, check_at_least, check_range, nested, resolve_settings
from pipelines.scenes import timecode
from pipelines.settings import Matching, ScoredData

if TYPE_CHECKING:  # start-up time: numpy, matplotlib; types of options for editors and mypy
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from pipelines.stages.option_types import BoundaryOptions, LegendOptions, PseudoBoundaryOptions
    from pipelines.stores.index import Index

FORMATS = (".png", ".svg", ".pdf")
# Okabe and Ito, "Color Universal Design" (2008), safe for color blindness. Shapes or brightness differ too.
BLUE, VERMILLION, GREEN, PURPLE, BLACK = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000"
ORANGE, SKY = "#e69f00", "#56b4e9"
LONGEST = 48  # characters of a name
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "text.parse_math": False,  # a name with dollar signs is not a formula
    "svg.fonttype": "none",  # text stays text, to be searched and edited
    "svg.hashsalt": "bassl",  # equal plots are equal files
    "pdf.fonttype": 42,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
_NO_CURVES = {"step", "epoch", "seed", "windows_per_second", "shots_per_second", "waiting"}
_COLORS = (BLUE, VERMILLION, GREEN, PURPLE, BLACK, ORANGE, SKY)
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Legend(Settings):
    """Names of models or runs in a figure."""

    labels: Annotated[tuple[str, ...], Doc("Names in the figure, in order; repeat it. Default: file names.")] = ()


@dataclass(frozen=True)
class PseudoBoundarySettings(Settings):
    """Which windows, and how they are divided."""

    data: ScoredData = nested(ScoredData())
    windows: Annotated[int, Doc("Windows around a true scene end to sample, if none are named.")] = 4
    neighbors: Annotated[int, Doc("K, shots on each side of the center (section 4.1).")] = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "neighbors", "windows")


@dataclass(frozen=True)
class BoundarySettings(Settings):
    """What predictions are compared with."""

    matching: Matching = nested(Matching(), without=("tolerance", "within", "doubtful"))
    legend: Legend = nested(Legend())
    shots: Annotated[int | None, Doc("Draw so many shots as images (appendix). Default: scores over time.")] = None
    first: Annotated[int, Doc("Number of the first of these shots, counted from 0.")] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 0, "first")
        check_range(self, 2, 48, "shots")  # more would be too small to recognize


@explain_missing_extra("draw_pseudo_boundaries")
def draw_pseudo_boundaries(
    centers: str | Sequence[str],
    output: Path | str,
    settings: PseudoBoundarySettings | None = None,
    **options: Unpack[PseudoBoundaryOptions],
) -> Path:
    """Draw where windows of shots are divided into two parts by their features (section 3.3), and where their true
    scenes end (appendix, "Pseudo-boundaries"): over the middle keyframe of each shot, or without keyframes over the
    similarity that determines the division. ``centers``: of windows, as ``VIDEO:SHOT``; without, they are sampled. As
    in pre-training, a window beyond a video's edge is moved inside. Raises BasslError for a window that is not in the
    index, no scene ends to sample, or files that cannot be read or written."""
    settings = resolve_settings(PseudoBoundarySettings, settings, options)
    names, output = [centers] if isinstance(centers, str) else centers, Path(output)
    _check_plot(output, (settings.data.index,))
    import numpy as np  # start-up time, as the next ones
    import torch
    from matplotlib.figure import Figure

    from pipelines.datasets.movienet import KeyframeReader
    from pipelines.models.encoder_loading import features_for
    from pipelines.pretext.pseudo_boundary import discover, end_similarity
    from pipelines.stores.index import read_index, window_rows

    index = read_index(settings.data.index)
    rows = window_rows(index.first_row, _centers(index, names, settings), settings.neighbors, "shift")
    videos = index.video_of(rows[:, 0]).tolist()
    features = features_for(index, videos, settings.data.features).features
    dense = torch.from_numpy(features[rows].astype(np.float32))
    slow = dense[:, [0, -1]]
    boundaries, similarities = discover("dtw", slow, dense).tolist(), end_similarity(slow, dense).numpy()
    strips: list[list[NDArray[np.uint8]]] = [[] for _ in videos]
    if all(index.keyframe_sources[video] is not None for video in videos):
        reader, middle = KeyframeReader(index), np.full((rows.shape[1], 1), index.keyframes // 2)
        for window, images in zip(rows, strips, strict=True):
            jpegs = zip(window.tolist(), reader.read(window, middle), strict=True)
            images += [reader.decoded(row, jpeg) for row, (jpeg,) in jpegs]
    heights = [_height(images) for images in strips]
    with _plot_style():
        figure = Figure(figsize=(10, sum(heights) + 0.5 * len(rows) + 0.4), layout="constrained")
        panels = figure.subplots(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
        for i, (panel, video, images) in enumerate(zip(panels, videos, strips, strict=True)):
            shots = rows[i] - index.first_row[video]
            if images:
                _draw_images(panel, images, shots[0])
            else:
                panel.plot(shots, similarities[i, 0], "o-", color=BLUE, label="similarity to the first shot")
                panel.plot(shots, similarities[i, 1], "s-", color=ORANGE, label="similarity to the last shot")
                panel.locator_params("x", nbins=17, integer=True)
            true_ends = shots[:-1][index.targets(rows[i, :-1]) == 1]
            _draw_ends(panel, [shots[boundaries[i]] + 0.5], true_ends + 0.5, "pseudo-boundary")
            name = printable(index.video_ids[video], LONGEST)
            panel.set_title(f"{name}, shots {shots[0]} to {shots[-1]}", loc="left")
        return _save_plot(output, figure)


def _centers(index: Index, names: Sequence[str], settings: PseudoBoundarySettings) -> NDArray[np.int64]:
    """Return the rows of shots ``VIDEO:SHOT``, or of sampled true scene ends, whose windows are inside a video."""
    import numpy as np  # start-up time

    K, S, rows = settings.neighbors, 2 * settings.neighbors + 1, list[int]()
    for name in names:
        video, _, shot = name.rpartition(":")
        shots = index.rows([index.video_ids.index(video)] if video in index.video_ids else [])
        if not shot.isdecimal() or int(shot) >= len(shots) or len(shots) < S:
            advice = f"give VIDEO:SHOT, counted from 0, for example {index.video_ids[0]}:8"
            raise BasslError(f"{index.path}: has no shot {name!r} in a video of {S} shots or more; {advice}")
        rows.append(int(shots[int(shot)]))
    if not names:
        inner = [np.arange(first + K, last - K) for first, last in pairwise(index.first_row)]
        ends = np.concatenate([shots[index.targets(shots) == 1] for shots in inner])
        if not len(ends):
            raise BasslError(f"{index.path}: has no window of {S} shots around a true scene end; name windows")
        rows = np.random.default_rng(0).permutation(ends)[: settings.windows].tolist()
    return np.sort(rows)


def draw_boundaries(
    files: Path | str | Sequence[Path | str],
    output: Path | str,
    settings: BoundarySettings | None = None,
    **options: Unpack[BoundaryOptions],
) -> Path:
    """Draw the scene ends that models predict for one video, and the true ones (appendix, "Predicted scene
    boundaries"), from the ``scenes.json`` of `bassl predict`: over the scores, or with ``shots`` over the middle frames
    of some shots of the first file. Raises BasslError for files that cannot be read or written, or lack these shots."""
    settings = resolve_settings(BoundarySettings, settings, options)
    inputs, output = as_paths(files), Path(output)
    names = _names(inputs, settings.legend, output, settings.matching.truth)
    import numpy as np  # start-up time, as the next ones
    from matplotlib.figure import Figure

    from pipelines.datasets.scenes_json import read_scene_list
    from pipelines.video.decoding import VideoDecoder
    from pipelines.video.reader import still_images

    predictions, first, M = [read_scene_list(file) for file in inputs], settings.first, settings.shots or 0
    shots, video, images = predictions[0].shots, Path(predictions[0].video.path), []
    if first + M > len(shots):
        raise BasslError(f"{inputs[0]}: has {len(shots)} shots, but not all of {first} to {first + M - 1}")
    middles = [(shot.start + shot.end) / 2 for shot in shots]
    if M:
        times = middles[first : first + M]
        with VideoDecoder(video) as reader:
            frames = still_images(reader, times, lambda width, height: (200, 200 * height // width))
            images = [image for _, image in frames]
    with _plot_style():
        figure = Figure(figsize=(10, (_height(images) + 0.5) * len(names) + 0.6), layout="constrained")
        figure.suptitle(printable(video.name, 2 * LONGEST))
        panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        for panel, file, name, prediction in zip(panels, inputs, names, predictions, strict=True):
            ends = np.array([scene.end for scene in prediction.scenes[:-1]])
            true_ends = np.array(_true_ends(file, settings.matching))
            if images:
                _draw_images(panel, images, first)
                ends, true_ends = np.searchsorted(middles, ends) - 0.5, np.searchsorted(middles, true_ends) - 0.5
            else:
                scores, starts = [shot.score for shot in prediction.shots], [shot.start for shot in prediction.shots]
                panel.stairs(scores, [*starts, prediction.shots[-1].end], fill=True, color=SKY, label="score")
                panel.margins(x=0)
                panel.locator_params("x", nbins=12, steps=(1, 1.5, 3, 6, 10))
                panel.set(ylim=(0, 1), ylabel="score")
                panel.xaxis.set_major_formatter(lambda seconds, _: timecode(seconds)[:8])
            _draw_ends(panel, ends, true_ends, "predicted scene end")
            panel.set_title(f"{name}, {count(len(prediction.scenes), 'scene')}", loc="left")
        return _save_plot(output, figure)


def _true_ends(file: Path, matching: Matching) -> list[float]:
    """Return the seconds of true scene ends, as `bassl score` reads them for a ``scenes.json``."""
    from pipelines.stages.score import score  # start-up time

    if matching.truth is None:
        return []
    (video,) = score(file, matching.truth, matching=replace(matching, truth=None), resamples=0).videos
    if video.true_ends is not None:
        return list(video.true_ends.mean(axis=1))  # of a fade, the middle
    assert video.seconds is not None  # a scenes.json has them
    return list(video.seconds[:-1, 1][video.labels[:-1] == 1])


def _height(images: Sequence[NDArray[np.uint8]]) -> float:
    """Return the height in inches of images side by side, as wide as a figure, or of a panel without images."""
    return 10 / len(images) * images[0].shape[0] / images[0].shape[1] if images else 0.9


def _draw_images(panel: Axes, images: Sequence[NDArray[np.uint8]], first: int) -> None:
    """Draw the images of consecutive shots side by side, with the numbers of the shots below."""
    height = _height(images) * len(images) / 10
    for shot, image in enumerate(images, first):
        panel.imshow(image, extent=(shot - 0.46, shot + 0.46, 0, height))
    panel.set(xlim=(first - 0.5, first + len(images) - 0.5), ylim=(0, height), yticks=[])
    panel.locator_params("x", nbins=17, integer=True)
    panel.spines[:].set_visible(False)


def _draw_ends(panel: Axes, ends: Iterable[float], true_ends: Iterable[float], label: str) -> None:
    """Draw scene ends that were found, and the true ones over them."""
    for end in ends:
        panel.axvline(end, color=VERMILLION, linewidth=3, label=label)
    for end in true_ends:
        panel.axvline(end, color=BLACK, linewidth=1, linestyle="--", label="true scene end")


def draw_curves(
    runs: Path | str | Sequence[Path | str],
    output: Path | str,
    settings: Legend | None = None,
    **options: Unpack[LegendOptions],
) -> Path:
    """Draw losses, learning rate and validation measures from the logs of run folders, finished or not. The seeds of a
    fine-tuned run are one line, their mean, with a band from minimum to maximum. Raises BasslError for a folder without
    a log, a damaged log, or an output that cannot be written."""
    settings = resolve_settings(Legend, settings, options)
    inputs, output = as_paths(runs), Path(output)
    names, curves = _names(inputs, settings, output), [_curves(run) for run in inputs]
    from matplotlib.figure import Figure  # start-up time

    quantities = dict.fromkeys(quantity for of_run in curves for quantity in of_run)
    columns, lines = min(len(quantities), 4), -(-len(quantities) // 4)
    with _plot_style():
        figure = Figure(figsize=(max(2.5 * columns, 4.5), 1.9 * lines + 0.5), layout="constrained")
        for place, quantity in enumerate(quantities, 1):
            panel = figure.add_subplot(lines, columns, place, title=quantity.replace("_", " "), xlabel="step")
            for name, of_run, color, dash in zip(names, curves, cycle(_COLORS), cycle(_DASHES), strict=False):
                values = dict(sorted(of_run.get(quantity, {}).items()))
                steps, seeds, mark = list(values), list(values.values()), "o" * (len(values) <= 20)
                panel.plot(steps, [*map(fmean, seeds)], dash, color=color, marker=mark, markersize=3, label=f" {name}")
                panel.fill_between(steps, [*map(min, seeds)], [*map(max, seeds)], color=color, alpha=0.18, linewidth=0)
            panel.locator_params("x", nbins=4, integer=True)
        return _save_plot(output, figure)


def _curves(run: Path) -> dict[str, dict[float, list[float]]]:
    """Return the values of all seeds by quantity and step, from the logs of a run."""
    from pipelines.training.run_folder import LOG, VALIDATION, read_log  # start-up time

    log = read_log(run / LOG)
    if not log:
        raise BasslError(f"{run}: has no {LOG} with rows; give the folder of a run of pretrain or finetune")
    last = {row.get("seed", 0.0): row["step"] for row in log}
    before = dict(zip(last, [0.0, *last.values()], strict=False))  # steps continue from seed to seed
    curves: dict[str, dict[float, list[float]]] = {}
    for row in (*log, *read_log(run / VALIDATION)):
        step = row["step"] - before.get(row.get("seed", 0.0), 0.0)
        for quantity in (name for name in row if name not in _NO_CURVES):
            curves.setdefault(quantity, {}).setdefault(step, []).append(row[quantity])
    return curves


def _names(inputs: Sequence[Path], legend: Legend, output: Path, *others: Path | None) -> list[str]:
    """Return the names of inputs in a figure: labels, or those of files. Raises BasslError, as `_check_plot`."""
    _check_plot(output, (*inputs, *others))
    names = legend.labels or [path.stem if path.suffix == ".json" else path.name or str(path) for path in inputs]
    if len(names) != len(inputs) or not names:
        raise BasslError(f"{count(len(names), 'label')} for {count(len(inputs), 'input')}; give one label per input")
    if len(set(names)) < len(names):
        names = list(map(str, inputs))
    return [printable(name, LONGEST) for name in names]


def _check_plot(path: Path, read: Iterable[Path | None]) -> None:
    """Check, before any work, that a plot can be written, with an extension in `FORMATS`. Raises BasslError."""
    check_installed("matplotlib", "a plot")
    if path.suffix.lower() not in FORMATS:
        raise BasslError(f"{path}: unknown extension {path.suffix}; a plot is a .png, .svg or .pdf file")
    check_output(path, read)


def _plot_style() -> AbstractContextManager[None]:
    """Set the style in which plots are drawn and saved, regardless of the user's matplotlibrc."""
    from matplotlib import style  # start-up time: matplotlib

    return style.context(["default", _STYLE])


def _save_plot(path: Path, figure: Figure) -> Path:
    """Write a figure, with one legend for all its panels, after `_check_plot`; equal figures are equal files. Warns of
    characters that the font lacks. Raises BasslError for a path that cannot be written; returns it."""
    kind, buffer = path.suffix.lower(), BytesIO()
    dateless: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    entries = {line.get_label(): line for panel in figure.axes for line in panel.get_legend_handles_labels()[0]}
    with _plot_style(), warnings.catch_warnings(record=True, action="always") as problems:
        figure.legend(handles=entries.values(), loc="outside lower center", ncols=4)
        figure.savefig(buffer, format=kind[1:], dpi=150, metadata=dateless.get(kind))
    write_atomically(path, buffer.getvalue())
    if kind != ".svg" and any("Glyph" in str(problem.message) for problem in problems):
        warnings.warn(BasslWarning(f"{path}: its font lacks some characters; an .svg needs none"), stacklevel=2)
    return path
