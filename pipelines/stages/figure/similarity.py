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
from numpy.typing import NDArray

from pipelines.baselines.segmentation import unit_rows
from pipelines.errors import BasslError
from pipelines.models.opening import open_model
from pipelines.outputs.plots import BLACK, COLUMNS, WIDTH, aspect, draw_images, plot_style, scene_ranges, shorten
from pipelines.stages.figure import SimilaritySettings
from pipelines.stages.figure.videos import features_in, images_of, scene_ends, store_of, video_number
from pipelines.stores.features import is_store
from pipelines.stores.index import Index, read_index, window_rows

_MOST_IMAGES = 48  # above a matrix; more would be too small to recognize
_WINDOWS_AT_A_TIME = 256


def similarity(models: Sequence[Path], names: Sequence[str], settings: SimilaritySettings) -> Figure:
    """Return the figure of :func:`pipelines.stages.figure.draw_similarity`, with the ``names`` of the models."""
    index = read_index(settings.data.index)
    video = video_number(index, settings.video)
    name, N = index.video_ids[video], len(index.rows([video]))
    first, last = settings.first, settings.first + settings.shots - 1
    if first < 0 or last >= N:
        raise BasslError(f"{index.path}: {name} has {N} shots, 0 to {N - 1}, but not all of {first} to {last}")
    matrices: dict[str, NDArray[np.float64]] = {}
    for label, model in zip(names, models, strict=True):
        encodings = _encodings(index, video, model, settings.data.features)[first : last + 1]
        units = unit_rows(encodings.astype(np.float64), 1e-12)
        matrices[label] = units @ units.T  # cosines; 0 for features of length 0
    rows = index.rows([video])[first : last + 1]
    ends = scene_ends(index, rows)
    title = f"{name}, shots {first} to {last}" + (", without labels" if ends is None else "")
    images = images_of(index, rows) if len(rows) <= _MOST_IMAGES else []
    return similarity_figure(matrices, first, ends, images, title, settings.own_scale)


def _encodings(index: Index, video: int, model: Path, features: Path) -> NDArray[np.floating]:
    """Return the encodings (N, D) of the shots of a video by a model."""
    if is_store(model):
        return features_in(model, index, video)
    if not model.exists():
        raise BasslError(f"{model}: no such feature store, run or model")
    opened = open_model(model)
    crn, encoder = opened.context()
    store = store_of(index, video, features, opened.path if opened.has_encoder else encoder)
    encodings, shape = features_in(store, index, video), crn.settings
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


def similarity_figure(
    matrices: Mapping[str, NDArray[np.floating]],
    first: int,
    ends: Sequence[int] | None,
    images: Sequence[NDArray[np.uint8]],
    title: str,
    own_scale: bool,
) -> Figure:
    """Return cosine similarities (M, M) of M shots, from number ``first``, side by side below the shots' images (H, W,
    3). ``ends``: the shots that end a scene, from 0 to M - 1, or None. With ``own_scale`` the colors of matrices cannot
    be compared."""
    M, columns = len(next(iter(matrices.values()))), min(len(matrices), COLUMNS)
    rows = -(-len(matrices) // columns)
    side = min(4.5, (WIDTH - 0.9) / columns - 0.4)  # inches, of a matrix
    tall = side + (1.25 if own_scale else 0.75)
    # Higher than necessary, so that its width determines its size.
    strip = 1.2 * columns * (side + 0.4) / M * aspect(images) if images else 0.0
    lowest = min(float(matrix.min()) for matrix in matrices.values())
    with plot_style():
        size = (columns * (side + 0.4) + 0.9, rows * tall + strip + 0.3)
        figure = Figure(figsize=size, layout="compressed")
        grid = figure.add_gridspec(rows + 1, columns, height_ratios=[strip or 1e-3, *[tall] * rows])
        figure.suptitle(shorten(title, 100), fontsize=10)
        panels: list[Axes] = []
        if images:
            panels.append(figure.add_subplot(grid[0, :]))
            draw_images(panels[0], images)
            for _, end in scene_ranges(M, ends)[:-1]:
                panels[0].axvline(end, -0.04, 1.04, color=BLACK, linewidth=1.8, clip_on=False)
        edges = (first - 0.5, first + M - 0.5)
        for number, (name, matrix) in enumerate(matrices.items()):
            panel = figure.add_subplot(grid[1 + number // columns, number % columns])
            panels.append(panel)
            bottom = float(matrix.min()) if own_scale else lowest
            shades: dict[str, Any] = {"vmin": min(bottom, 1 - 1e-6), "vmax": 1, "interpolation": "nearest"}
            image = panel.imshow(matrix, extent=(*edges, *edges[::-1]), **shades)
            for start, end in scene_ranges(M, ends):
                for color, line in ((BLACK, 2.6), ("white", 1.2)):  # visible on dark and light
                    corner, length = (first + start - 0.5,) * 2, end - start
                    panel.add_patch(Rectangle(corner, length, length, fill=False, edgecolor=color, linewidth=line))
            panel.set_title(shorten(name), fontsize=9)
            panel.set_xlabel("shot")
            panel.locator_params(nbins=5, integer=True)
            if own_scale:
                figure.colorbar(image, ax=panel, location="bottom", fraction=0.05, label="cosine similarity")
        if not own_scale:
            figure.colorbar(image, ax=panels, label="cosine similarity", fraction=0.03, pad=0.02, panchor=False)
    return figure
