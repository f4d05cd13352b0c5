"""Pseudo-boundaries of windows against true scene ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from pipelines.errors import BasslError
from pipelines.outputs.figures.pseudo_boundaries import DividedWindow, pseudo_boundary_figure
from pipelines.pretext.pseudo_boundary import discover, end_similarity
from pipelines.stages.figure.files import check_output, save_figure
from pipelines.stages.figure.settings import FigureResult, PseudoBoundarySettings
from pipelines.stages.figure.videos import images_of, named_video, scene_ends, select_video, store_of
from pipelines.stores.features import features_of
from pipelines.stores.index import Index, read_index, window_rows


def pseudo_boundaries(windows: Sequence[str], output: Path, settings: PseudoBoundarySettings) -> FigureResult:
    """Draw the figure, see :func:`pipelines.stages.figure.draw_pseudo_boundaries`."""
    check_output(output, (settings.index, settings.features))
    index = read_index(settings.index)
    centers = [_center(index, window) for window in windows] or _sample_windows(index, settings)
    return save_figure(output, pseudo_boundary_figure([_divide_window(index, *center, settings) for center in centers]))


def _center(index: Index, text: str) -> tuple[int, int]:
    """The video and the shot of ``VIDEO:SHOT``."""
    name, _, number = text.rpartition(":")
    if not name or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise BasslError(f"{text!r} is not a window; give VIDEO:SHOT, for example {index.video_ids[0]}:8")
    video = named_video(index, name)
    shots = len(index.rows([video]))
    if int(number) >= shots:
        raise BasslError(f"{index.path}: {name} has {shots} shots, 0 to {shots - 1}, but no shot {int(number)}")
    return video, int(number)


def _sample_windows(index: Index, settings: PseudoBoundarySettings) -> list[tuple[int, int]]:
    """Center shots of different windows with a true scene end before their last shot, in order."""
    lengths = np.diff(index.first_row)
    rows = index.rows_of()
    rows = rows[lengths[index.video_of(rows)] > 2 * settings.neighbours]
    no_window = BasslError(
        f"{index.path}: has no window of {2 * settings.neighbours + 1} shots with a labeled scene end; give windows "
        "as VIDEO:SHOT"
    )
    if not len(rows):  # every video is shorter than a window
        raise no_window
    is_end = np.zeros(len(index.label), np.bool_)
    labelled = index.rows_of(labelled=True)
    is_end[labelled] = index.targets(labelled) == 1
    members = window_rows(index.first_row, rows, settings.neighbours, "shift")
    # Windows at a video's edge are moved inside, which makes some of them equal.
    members, firsts = np.unique(members, axis=0, return_index=True)
    centers = rows[firsts][is_end[members[:, :-1]].any(axis=1)]
    if not len(centers):
        raise no_window
    sampled = np.random.default_rng(settings.seed).choice(centers, min(settings.windows, len(centers)), replace=False)
    sampled = np.sort(sampled)
    videos = index.video_of(sampled)
    return list(zip(videos.tolist(), (sampled - index.first_row[videos]).tolist(), strict=True))


def _divide_window(index: Index, video: int, shot: int, settings: PseudoBoundarySettings) -> DividedWindow:
    index = select_video(index, video)
    (name,) = index.video_ids
    S, N = 2 * settings.neighbours + 1, len(index.label)
    if N < S:
        raise BasslError(f"{index.path}: {name} has {N} shots, fewer than a window of {S}; lower --neighbours")
    (rows,) = window_rows(index.first_row, np.array([shot]), settings.neighbours, "shift")
    store = store_of(index, settings.features)
    dense = torch.from_numpy(features_of(index, [store]).features[rows].astype(np.float32))[None]
    slow = dense[:, [0, -1]]
    boundary = int(discover(settings.method, slow, dense)[0])
    ends = scene_ends(index, rows)
    title = f"{name}, shots {rows[0]} to {rows[-1]}: pseudo-boundary after shot {rows[boundary]}"
    inner = [end for end in ends or () if end < S - 1]
    if ends is not None:
        title += (
            f", scene ends after {', '.join(str(rows[end]) for end in inner)}" if inner else ", no scene end inside"
        )
    return DividedWindow(title, boundary, ends, end_similarity(slow, dense)[0].numpy(), images_of(index, rows))
