"""Similarity of consecutive shots under several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pipelines.baselines.segmentation import unit_rows
from pipelines.errors import BasslError
from pipelines.models.opening import open_model
from pipelines.outputs.plots import BLACK, COLUMNS, WIDTH, aspect, draw_images, plot_style, scene_ranges, shorten
from pipelines.stages.figure import SimilaritySettings
from pipelines.stages.figure.videos import images_of, scene_ends, store_of, video_number
from pipelines.stores.features import features_of, is_store
from pipelines.stores.index import Index, read_index, window_rows

_MOST_IMAGES = 48  # above a matrix; more would be too small to recognize
_WINDOWS_AT_A_TIME = 256


def similarity(models: Sequence[Path], names: Sequence[str], settings: SimilaritySettings) -> Figure:
    """The figure of :func:`pipelines.stages.figure.draw_similarity`, with the ``names`` of the models."""
    index = read_index(settings.data.index)
    video = video_number(index, settings.video)
    name, N = index.video_ids[video], len(index.rows([video]))
    first, last = settings.first, settings.first + settings.shots - 1
    if first < 0 or last >= N:
        raise BasslError(f"{index.path}: {name} has {N} shots, 0 to {N - 1}, but not all of {first} to {last}")
    matrices: dict[str, NDArray[np.float64]] = {}
    for label, model in zip(names, models, strict=True):
        encodings = _representation(index, video, model, settings.data.features)[first : last + 1]
        units = unit_rows(encodings.astype(np.float64), 1e-12)
        matrices[label] = units @ units.T  # cosines; 0 for features of length 0
    rows = index.rows([video])[first : last + 1]
    ends = scene_ends(index, rows)
    title = f"{name}, shots {first} to {last}" + (", without labels" if ends is None else "")
    images = images_of(index, rows) if len(rows) <= _MOST_IMAGES else []
    return similarity_figure(matrices, first, ends, images, title, settings.own_scale)


def _representation(index: Index, video: int, model: Path, features: Path) -> NDArray[np.floating]:
    """The encodings (N, D) of the shots of a video by a model."""
    if is_store(model):
        return _features(index, video, model)
    if not model.exists():
        raise BasslError(f"{model}: no such feature store, run or model")
    opened = open_model(model)
    crn, encoder = opened.context()
    store = store_of(index, video, features, opened.path if opened.has_encoder else encoder)
    encodings = _features(index, video, store)
    shape = crn.settings
    if encodings.shape[1] != shape.input_width:
        raise BasslError(
            f"{store}: its features are {encodings.shape[1]} wide, but the input of {model} is {shape.input_width}; "
            "give the store of its encoder with `features`"
        )
    shots, N = torch.from_numpy(encodings), len(encodings)
    windows = torch.from_numpy(window_rows(np.array([0, N]), np.arange(N), shape.neighbors, "clip"))
    with torch.inference_mode():
        parts = [crn(shots[part])[0][:, shape.center] for part in torch.split(windows, _WINDOWS_AT_A_TIME)]
        context: NDArray[np.floating] = torch.cat(parts).numpy()
    return context


def _features(index: Index, video: int, store: Path) -> NDArray[np.float32]:
    return features_of(index, [store], [video]).features[index.span(video)].astype(np.float32)


def similarity_figure(
    matrices: Mapping[str, NDArray[np.floating]],
    first: int,
    ends: Sequence[int] | None,
    images: Sequence[NDArray[np.uint8]],
    title: str,
    own_scale: bool,
) -> Figure:
    """Cosine similarity (M, M) of M consecutive shots, from number ``first``, under several models, side by side
    (appendix, "Visualization of similarities between consecutive shots"), below the shots' images (H, W, 3). ``ends``:
    the shots that end a scene, from 0 to M - 1; None without labels. With ``own_scale`` the colors of matrices cannot
    be compared."""
    M = len(next(iter(matrices.values())))
    columns = min(len(matrices), COLUMNS)
    rows = -(-len(matrices) // columns)
    side = min(4.5, (WIDTH - 0.9) / columns - 0.4)  # inches, of a matrix
    margin = 1.25 if own_scale else 0.75  # above and below it
    # Higher than necessary, so that its width determines its size.
    strip = 1.2 * columns * (side + 0.4) / M * aspect(images) if images else 0.0
    with plot_style():
        size = (columns * (side + 0.4) + 0.9, rows * (side + margin) + strip + 0.3)
        figure = Figure(figsize=size, layout="compressed")
        heights = [strip, *[side + margin] * rows] if images else [1] * rows
        grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
        figure.suptitle(shorten(title, 100), fontsize=10)
        panels: list[Axes] = []
        if images:
            strip_panel = figure.add_subplot(grid[0, :])
            draw_images(strip_panel, images)
            for _, end in scene_ranges(M, ends)[:-1]:
                strip_panel.axvline(end, -0.04, 1.04, color=BLACK, linewidth=1.8, clip_on=False)
            panels.append(strip_panel)
        lowest = min(float(matrix.min()) for matrix in matrices.values())
        edges = (first - 0.5, first + M - 0.5)
        image: Any = None
        for number, (name, matrix) in enumerate(matrices.items()):
            row, column = divmod(number, columns)
            panel = figure.add_subplot(grid[row + bool(images), column])
            bottom = float(matrix.min()) if own_scale else lowest
            shades: dict[str, Any] = {"cmap": "viridis", "vmin": min(bottom, 1 - 1e-6), "vmax": 1}
            image = panel.imshow(matrix, **shades, extent=(*edges, *edges[::-1]), interpolation="nearest")
            for start, end in scene_ranges(M, ends):
                for colour, line in ((BLACK, 2.6), ("white", 1.2)):  # visible on dark and light
                    corner, side = (first + start - 0.5,) * 2, end - start
                    panel.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=colour, linewidth=line))
            panel.set_title(shorten(name), fontsize=9)
            panel.spines[:].set_visible(False)
            for axis in (panel.xaxis, panel.yaxis):
                axis.set_major_locator(MaxNLocator(5, integer=True))
            if column == 0:
                panel.set_ylabel("shot")
            panel.set_xlabel("shot")
            if own_scale:
                figure.colorbar(image, ax=panel, location="bottom", fraction=0.05, label="cosine similarity")
            panels.append(panel)
        if not own_scale:
            figure.colorbar(image, ax=panels, label="cosine similarity", fraction=0.03, pad=0.02, panchor=False)
    return figure
