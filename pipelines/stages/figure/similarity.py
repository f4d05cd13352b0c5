"""Similarity of consecutive shots under several models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.baselines.segmentation import unit_rows
from pipelines.errors import BasslError
from pipelines.models.opening import open_model
from pipelines.outputs.figures.similarity import similarity_figure
from pipelines.stages.figure.files import check_output, model_names, save_figure
from pipelines.stages.figure.settings import FigureResult, SimilaritySettings
from pipelines.stages.figure.videos import images_of, scene_ends, select_by_id, store_of
from pipelines.stores.features import features_of
from pipelines.stores.index import Index, window_rows
from pipelines.stores.lookup import is_store

_MOST_IMAGES = 48
"""Above a matrix; more would be too small to recognize."""
_WINDOWS_AT_A_TIME = 256


def similarity(models: Sequence[Path], output: Path, settings: SimilaritySettings) -> FigureResult:
    """Draw the figure, see :func:`pipelines.stages.figure.draw_similarity`."""
    check_output(output, (*models, settings.index, settings.features))
    if not models:
        raise BasslError("nothing to draw: give a feature store or a run")
    names = model_names(models, settings.labels)
    index = select_by_id(settings.index, settings.video)
    (name,) = index.video_ids
    rows = _rows(index, settings.first, settings.shots)
    matrices = {
        label: _cosines(_representation(index, model, settings.features)[rows])
        for label, model in zip(names, models, strict=True)
    }
    ends = scene_ends(index, rows)
    title = f"{name}, shots {rows[0]} to {rows[-1]}" + (", without labels" if ends is None else "")
    images = images_of(index, rows) if len(rows) <= _MOST_IMAGES else []
    return save_figure(output, similarity_figure(matrices, int(rows[0]), ends, images, title, settings.own_scale))


def _representation(index: Index, model: Path, features: Path) -> NDArray[np.floating]:
    """The encodings (N, D) of the shots of a video by a model."""
    if is_store(model):
        return _features(index, model)
    if not model.exists():
        raise BasslError(f"{model}: no such feature store, run or model")
    opened = open_model(model)
    crn, encoder = opened.context()
    store = store_of(index, features, opened.path if opened.has_encoder else encoder)
    encodings = _features(index, store)
    shape = crn.settings
    if encodings.shape[1] != shape.input_width:
        raise BasslError(
            f"{store}: its features are {encodings.shape[1]} wide, but the input of {model} is {shape.input_width}; "
            "give the store of its encoder with --features"
        )
    video = torch.from_numpy(encodings)
    windows = torch.from_numpy(window_rows(index.first_row, np.arange(len(video)), shape.neighbors, "clip"))
    with torch.inference_mode():
        parts = [crn(video[part])[0][:, shape.center] for part in torch.split(windows, _WINDOWS_AT_A_TIME)]
        context: NDArray[np.floating] = torch.cat(parts).numpy()
    return context


def _features(index: Index, store: Path) -> NDArray[np.float32]:
    return features_of(index, [store]).features[index.span(0)].astype(np.float32)


def _cosines(features: NDArray[np.floating]) -> NDArray[np.float64]:
    """Cosine similarity (M, M) of all pairs; 0 for features of length 0."""
    units = unit_rows(features.astype(np.float64), 1e-12)
    similarity: NDArray[np.float64] = units @ units.T
    return similarity


def _rows(index: Index, first: int, shots: int) -> NDArray[np.int64]:
    N = len(index.label)
    if first < 0 or first + shots > N:
        raise BasslError(
            f"{index.path}: {index.video_ids[0]} has {N} shots, 0 to {N - 1}, but not all of {first} to "
            f"{first + shots - 1}"
        )
    return np.arange(first, first + shots)
