"""Choice of the shots that end scenes, from their scores and the user's constraints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.errors import BasslError, count
from pipelines.scenes import Scene, Shot, group_shots, without_short


def choose_scenes(
    shots: Sequence[Shot], threshold: float, min_scene: float, drop_short: bool, scenes: int | None
) -> tuple[Scene, ...]:
    """The scenes of shots with scores, as `bassl predict` finds them with these settings. Errors as for
    `choose_scene_ends`."""
    scores = [shot.score for shot in shots]
    ends = [shot.end - shots[0].start for shot in shots]
    scene_ends = choose_scene_ends(scores, ends, threshold, 0.0 if drop_short else min_scene, scenes)
    grouped = group_shots(shots, scene_ends)
    return without_short(grouped, min_scene) if drop_short else grouped


def choose_scene_ends(
    scores: ArrayLike, ends: ArrayLike, threshold: float = 0.5, min_scene: float = 0.0, scenes: int | None = None
) -> list[int]:
    """The shots that end scenes, in increasing order, the last shot of the video included.

    Each possible end i has the gain logit(score_i) - logit(threshold); of all choices without a scene shorter than
    ``min_scene`` seconds, the one with the greatest sum of gains is taken. Without a minimum these are the shots with a
    score of at least the threshold.

    Args:
        scores: (N,) probabilities that a scene ends with the shot; the last one is ignored.
        ends: (N,) end of each shot in seconds, from the beginning of the video.
        scenes: exact number of scenes, whatever the threshold.
    Raises BasslError if the video cannot be divided into this number of scenes of that length.
    """
    scores, ends = np.asarray(scores, np.float64), np.asarray(ends, np.float64)
    shots = len(scores)
    if scenes is not None and not 1 <= scenes <= shots:
        raise BasslError(f"the video has {count(shots, 'shot')}, so it cannot be divided into {scenes} scenes")
    # The small constant makes a score equal to the threshold a scene end.
    gains = _logit(scores) - _logit(np.array(threshold)) + 1e-12
    gains[-1] = 0.0  # the video ends here in any case
    # The end before an end at shot i is at one of the first before[i] shots; where allowed[i], there may be none.
    before = np.minimum(np.searchsorted(ends, ends - min_scene + 1e-9, side="right"), np.arange(shots))
    allowed = ends >= min_scene - 1e-9
    allowed[-1] = True  # a video shorter than the minimum is one scene
    if scenes is None:
        return _best_ends(gains, before, allowed)
    shots_of_ends = _best_ends_of_number(gains, before, allowed, scenes)
    if shots_of_ends is None:
        raise BasslError(f"the video cannot be divided into {scenes} scenes of at least {min_scene:g} seconds")
    return shots_of_ends


def _best_ends(gains: NDArray[np.float64], before: NDArray[np.intp], allowed: NDArray[np.bool_]) -> list[int]:
    """Dynamic programme over shots: the best sum of gains with an end at each shot, and the end before that."""
    shots = len(gains)
    best = np.full(shots, -np.inf)
    previous = np.full(shots, -1)
    running, running_at = np.full(shots + 1, -np.inf), np.full(shots + 1, -1)  # best over the first j ends
    for i in range(shots):
        if allowed[i]:
            best[i] = gains[i]
        if best[i] < running[before[i]] + gains[i]:
            best[i], previous[i] = running[before[i]] + gains[i], running_at[before[i]]
        better = best[i] > running[i]
        running[i + 1], running_at[i + 1] = (best[i], i) if better else (running[i], running_at[i])
    backwards = [shots - 1]
    while previous[backwards[-1]] >= 0:
        backwards.append(int(previous[backwards[-1]]))
    return backwards[::-1]


def _best_ends_of_number(
    gains: NDArray[np.float64], before: NDArray[np.intp], allowed: NDArray[np.bool_], scenes: int
) -> list[int] | None:
    """The same for a fixed number of scenes: row k has the best sum with the k-th end at each shot."""
    shots = len(gains)
    best = np.where(allowed, gains, -np.inf)
    table = []
    for _ in range(scenes - 1):
        prefix = np.concatenate([[-np.inf], np.maximum.accumulate(best)])
        changed = np.concatenate([[True], best[1:] > prefix[1:-1]]) if shots > 1 else np.array([True])
        at = np.concatenate([[-1], np.maximum.accumulate(np.where(changed, np.arange(shots), -1))])
        table.append(at[before])
        best = prefix[before] + gains
    if best[-1] == -np.inf:
        return None
    backwards = [shots - 1]
    for at in reversed(table):
        backwards.append(int(at[backwards[-1]]))
    return backwards[::-1]


def _logit(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = np.clip(probability, 1e-9, 1 - 1e-9)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
