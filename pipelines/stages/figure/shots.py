"""Figures of the shots of an index: their similarity under several models, and pseudo-boundaries of windows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.errors import BasslError, StoreError, count, suggestion
from pipelines.models.checkpoints import part_of, settings_fit
from pipelines.models.encoder_loading import encoder_for
from pipelines.models.networks.cut_evidence import unit_rows
from pipelines.models.opening import open_model
from pipelines.outputs.plots import (
    BLACK,
    COLUMNS,
    SIDES,
    VERMILLION,
    WIDTH,
    aspect,
    draw_bar,
    draw_images,
    plot_style,
    scene_ranges,
    shorten,
)
from pipelines.stages.figure import MOST_IMAGES, PseudoBoundarySettings, SimilaritySettings
from pipelines.stores.features import features_of, find_features, is_store, stores_with
from pipelines.stores.index import JOINED, Index, read_index, window_rows

_IMAGE_WIDTH = 200  # pixels: enough for one of sixteen shots in print
_WINDOWS_AT_A_TIME = 256


# --- similarity -------------------------------------------------------------------------------------------------------


def similarity(models: Sequence[Path], names: Sequence[str], settings: SimilaritySettings) -> Figure:
    """Return the figure of `draw_similarity`: a matrix (M, M) of cosines for each model, below the shots' images."""
    index = read_index(settings.data.index)
    video, M = _video_number(index, settings.video), settings.shots
    title, N = index.video_ids[video], len(index.rows([video]))
    first, last = settings.first, settings.first + M - 1
    if first < 0 or last >= N:
        raise BasslError(f"{index.path}: {title} has {N} shots, 0 to {N - 1}, but not all of {first} to {last}")
    matrices: list[NDArray[np.float64]] = []
    for model in models:
        encodings = _encodings(index, video, model, settings.data.features)[first : last + 1]
        units = unit_rows(encodings.astype(np.float64), 1e-12)
        matrices.append(units @ units.T)  # 0 for features of length 0
    rows = index.rows([video])[first : last + 1]
    ends = _scene_ends(index, rows)
    images = _images_of(index, rows) if M <= MOST_IMAGES else []
    columns, own_scale = min(len(matrices), COLUMNS), settings.own_scale
    lines = -(-len(matrices) // columns)
    side = min(4.5, (WIDTH - 0.9) / columns - 0.4)  # inches, of a matrix
    tall = side + (1.25 if own_scale else 0.75)
    # Higher than necessary, so that its width determines its size.
    strip = 1.2 * columns * (side + 0.4) / M * aspect(images) if images else 0.0
    lowest = min(float(matrix.min()) for matrix in matrices)
    with plot_style():
        size = (columns * (side + 0.4) + 0.9, lines * tall + strip + 0.3)
        figure = Figure(figsize=size, layout="compressed")
        grid = figure.add_gridspec(lines + 1, columns, height_ratios=[strip or 1e-3, *[tall] * lines])
        title += f", shots {first} to {last}" + (", without labels" if ends is None else "")
        figure.suptitle(shorten(title, 100), fontsize=10)
        panels: list[Axes] = []
        if images:
            panels.append(figure.add_subplot(grid[0, :]))
            draw_images(panels[0], images)
            for _, end in scene_ranges(M, ends)[:-1]:
                panels[0].axvline(end, -0.04, 1.04, color=BLACK, linewidth=1.8, clip_on=False)
        edges = (first - 0.5, first + M - 0.5)
        for number, (name, matrix) in enumerate(zip(names, matrices, strict=True)):
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


def _encodings(index: Index, video: int, model: Path, features: Path) -> NDArray[np.floating]:
    """Return the encodings (N, D) of the shots of a video: stored features, or what a model's CRN makes of them."""
    if is_store(model):
        return _features_in(model, index, video)
    import torch  # optional dependency: features that are stored need none

    if not model.exists():
        raise BasslError(f"{model}: no such feature store, run or model")
    opened = open_model(model)
    crn, encoder = opened.context()
    store = _store_of(index, video, features, opened.path if opened.has_encoder else encoder, opened.file)
    encodings, shape = _features_in(store, index, video), crn.settings
    _check_width(store, encodings, model, shape.input_width)
    shots, N = torch.from_numpy(encodings), len(encodings)
    windows = torch.from_numpy(window_rows(np.array([0, N]), np.arange(N), shape.neighbors, "clip"))
    with torch.inference_mode():
        parts = [crn(shots[part])[0][:, shape.center] for part in torch.split(windows, _WINDOWS_AT_A_TIME)]
        context: NDArray[np.floating] = torch.cat(parts).numpy()
    return context


def _check_width(store: Path, features: NDArray[np.floating], model: Path, width: int) -> None:
    if features.shape[1] != width:
        raise BasslError(
            f"{store}: its features are {features.shape[1]} wide, but the input of {model} is {width}; give the store "
            "of its encoder with `features`"
        )


# --- pseudo-boundaries ------------------------------------------------------------------------------------------------


def pseudo_boundaries(windows: Sequence[str], settings: PseudoBoundarySettings) -> Figure:
    """Return the figure of `draw_pseudo_boundaries`: shots have their keyframes, or without these their similarity to
    the first and the last shot; the shot at the pseudo-boundary is framed."""
    index, S = read_index(settings.data.index), 2 * settings.neighbors + 1
    centers = [_center(index, window) for window in windows] or _sample_centers(index, settings)
    divided = [_divide_window(index, center, settings) for center in centers]
    heights = [(WIDTH - 0.7) / S * aspect(images) if images else 1.1 for *_, images in divided]
    with plot_style():
        figure = Figure(figsize=(WIDTH, sum(heights) + 0.8 * len(heights) + 0.1))
        figure.set_layout_engine("constrained", h_pad=0.09)
        grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        for row, (title, boundary, ends, to_sides, images) in enumerate(divided):
            panel = figure.add_subplot(grid[row, 0])
            panel.set_title(shorten(title, 130), loc="left", fontsize=9)
            if images:
                draw_images(panel, images)
                corner, tall = (boundary + 0.02, 0.02), aspect(images) - 0.04
                frame = Rectangle(corner, 0.96, tall, fill=False, edgecolor=VERMILLION, linewidth=2.5, clip_on=False)
                panel.add_patch(frame)
            else:
                middles = np.arange(S) + 0.5
                panel.plot(middles, to_sides[0], "o-", color=SIDES[0], label="similarity to the first shot")
                panel.plot(middles, to_sides[1], "s-", color=SIDES[1], label="to the last shot")
                panel.axvline(boundary + 1, color=VERMILLION, linewidth=2, label="pseudo-boundary")
                panel.set(xlim=(0, S), ylabel="cosine\nsimilarity", xticks=[])
            draw_bar(panel, heights[row], 1, "found", scene_ranges(S, [boundary]))
            draw_bar(panel, heights[row], 2, "true" if ends is not None else "no labels", scene_ranges(S, ends))
        with_lines = next((panel for panel in figure.axes if panel.lines), None)
        if with_lines is not None:
            figure.legend(*with_lines.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _center(index: Index, text: str) -> int:
    """Return the row of ``VIDEO:SHOT``."""
    name, _, number = text.rpartition(":")
    if not name or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise BasslError(f"{text!r} is not a window; give VIDEO:SHOT, for example {index.video_ids[0]}:8")
    rows = index.rows([_video_number(index, name)])
    N, shot = len(rows), int(number)
    if shot >= N:
        raise BasslError(f"{index.path}: {name} has {N} shots, 0 to {N - 1}, but no shot {shot}")
    return int(rows[shot])


def _sample_centers(index: Index, settings: PseudoBoundarySettings) -> list[int]:
    """Return rows of center shots of different windows with a true scene end before their last shot, in order."""
    rows = index.rows_of()
    rows = rows[np.diff(index.first_row)[index.video_of(rows)] > 2 * settings.neighbors]
    centers = rows[:0]
    if len(rows):
        labeled = index.rows_of(labeled=True)
        ends = labeled[index.targets(labeled) == 1]
        # Windows at a video's edge are moved inside, which makes some of them equal.
        windows = window_rows(index.first_row, rows, settings.neighbors, "shift")
        windows, firsts = np.unique(windows, axis=0, return_index=True)
        centers = rows[firsts][np.isin(windows[:, :-1], ends).any(axis=1)]
    if not len(centers):
        raise BasslError(
            f"{index.path}: has no window of {2 * settings.neighbors + 1} shots with a labeled scene end; give "
            "windows as VIDEO:SHOT"
        )
    sample = np.random.default_rng(settings.seed).choice(centers, min(settings.windows, len(centers)), replace=False)
    return [int(row) for row in np.sort(sample)]


def _divide_window(
    index: Index, center: int, settings: PseudoBoundarySettings
) -> tuple[str, int, list[int] | None, NDArray[np.floating], list[NDArray[np.uint8]]]:
    """Return for a window of S shots its title, the last shot of the left part, the shots that end a true scene or
    None, the similarity (2, S) of each shot to the first and the last, and images (H, W, 3) of the shots or none."""
    import torch  # optional dependency

    from pipelines.pretext.pseudo_boundary import discover, end_similarity  # optional dependency: torch

    video = int(index.video_of(np.array([center]))[0])
    name, S, N = index.video_ids[video], 2 * settings.neighbors + 1, len(index.rows([video]))
    if N < S:
        raise BasslError(f"{index.path}: {name} has {N} shots, fewer than a window of {S}; lower `neighbors`")
    (rows,) = window_rows(index.first_row, np.array([center]), settings.neighbors, "shift")
    shots = rows - index.first_row[video]
    dense = torch.from_numpy(_compared(index, video, settings)[shots])[None]
    slow = dense[:, [0, -1]]
    boundary, ends = int(discover(settings.method, slow, dense)[0]), _scene_ends(index, rows)
    title = f"{name}, shots {shots[0]} to {shots[-1]}: pseudo-boundary after shot {shots[boundary]}"
    if ends is not None:
        inner = ", ".join(str(shots[end]) for end in ends if end < S - 1)
        title += f", scene ends after {inner}" if inner else ", no scene end inside"
    return title, boundary, ends, end_similarity(slow, dense)[0].numpy(), _images_of(index, rows)


def _compared(index: Index, video: int, settings: PseudoBoundarySettings) -> NDArray[np.float32]:
    """Return what the shots (N, D) of a video are compared by: features, or the projection of the model's head."""
    if settings.model is None:
        return _features_in(_store_of(index, video, settings.data.features), index, video)
    import torch  # optional dependency

    from pipelines.pretext.objective import ContrastiveHead, LinearContrastiveHead  # optional dependency: torch

    opened = open_model(settings.model)
    state = part_of(opened.weights.heads, "head_nce") if opened.has_weights else {}
    matrices = [state[name] for name in ("model.0.weight", "model.2.weight") if name in state]
    if not matrices:
        raise StoreError(f"{opened.file}: has no head of shot-scene matching; give a run of `bassl pretrain` that has")
    encoder = opened.path if opened.has_encoder else opened.weights.settings.encoder
    store = _store_of(index, video, settings.data.features, encoder, opened.file)
    features = _features_in(store, index, video)
    _check_width(store, features, settings.model, matrices[0].shape[1])
    kind = ContrastiveHead if len(matrices) == 2 else LinearContrastiveHead
    head = kind(matrices[0].shape[1], matrices[-1].shape[0])
    with settings_fit(opened.file):
        head.load_state_dict(state)
    with torch.inference_mode():
        projected: NDArray[np.float32] = head(torch.from_numpy(features)).numpy()
    return projected


# --- what an index and its stores have of a video ---------------------------------------------------------------------


def _video_number(index: Index, name: str | None) -> int:
    """Return the number of a video in an index by its id; without an id, of the only video."""
    names = index.video_ids
    if name is None:
        if len(names) > 1:
            examples = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise BasslError(f"{index.path}: has {count(len(names), 'video')} ({examples}); choose one with `video`")
        return 0
    if name not in names:
        advice = suggestion(name, names) or f"; its first is {names[0]}"
        raise BasslError(f"{index.path}: has no video {name!r}{advice}")
    return names.index(name)


def _scene_ends(index: Index, rows: NDArray[np.int64]) -> list[int] | None:
    """Return the positions in ``rows`` of the shots that end a scene, or None without labels."""
    is_labeled = np.isin(rows, index.rows_of(labeled=True))
    if not is_labeled.any():
        return None
    ends: list[int] = np.flatnonzero(is_labeled & (index.targets(rows) == 1)).tolist()
    return ends


def _store_of(
    index: Index, video: int, features: Path, model: str | Path | None = None, asker: Path | None = None
) -> Path:
    """Return the store with the features of a video: ``features`` itself, or the store of the encoder (`encoder_for`),
    in the index or in the folder ``features``. Raises StoreError for no store, or more than one."""
    if is_store(features):
        return features
    encoder, name = encoder_for(index, model, asker=asker), index.video_ids[video]
    parts = encoder.split(JOINED)
    stores = stores_with([store for part in parts for store in find_features(index, part, features, [video])], name)
    if not stores:
        raise StoreError(
            f"{index.path}: has no features of {encoder} of {name}, and neither has {features}; run `bassl encode`, or "
            "give a store with `features`"
        )
    if len(stores) > 1:
        paths = ", ".join(map(str, stores))
        raise StoreError(f"{index.path}: has features of {encoder} of {name} in {paths}; choose one with `features`")
    return stores[0]


def _features_in(store: Path, index: Index, video: int) -> NDArray[np.float32]:
    """Return the features (N, D) of the shots of a video in a store."""
    return features_of(index, [store], [video]).features[index.span(video)].astype(np.float32)


def _images_of(index: Index, rows: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
    """Return the middle keyframes of shots of one video, small; an empty list if it has none."""
    if index.keyframe_sources[int(index.video_of(rows[:1])[0])] is None or not index.keyframes:
        return []
    reader, images = KeyframeReader(index), []
    middle = np.full((len(rows), 1), index.keyframes // 2)
    for row, (jpeg,) in zip(rows.tolist(), reader.read(rows, middle), strict=True):
        image = reader.decoded(row, jpeg)
        height = min(max(1, round(image.shape[0] * _IMAGE_WIDTH / image.shape[1])), 2 * _IMAGE_WIDTH)
        images.append(np.asarray(cv2.resize(image, (_IMAGE_WIDTH, height), interpolation=cv2.INTER_AREA), np.uint8))
    return images
