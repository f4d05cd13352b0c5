"""Choice of the shots that end scenes, from their scores and the user's constraints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.errors import BasslError, count
from pipelines.models.scenes.scene_names import with_automatic_names
from pipelines.scenes import Scene, SceneData, Shot, group_shots, without_short

S = TypeVar("S", bound=SceneData)


def choose_scenes(
    shots: Sequence[Shot], threshold: float, min_scene: float, max_scene: float, drop_short: bool, scenes: int | None
) -> tuple[Scene, ...]:
    """Choose the scenes of shots with scores and pins, as `bassl predict` does with these settings; a ``max_scene`` of
    0 means no limit. Errors as for `choose_scene_ends`."""
    scores, pins = [shot.score for shot in shots], [shot.pinned for shot in shots]
    ends = [shot.end - shots[0].start for shot in shots]
    least, longest = 0.0 if drop_short else min_scene, max_scene or math.inf
    grouped = group_shots(shots, choose_scene_ends(scores, ends, threshold, least, longest, scenes, pins))
    return without_short(grouped, min_scene) if drop_short else grouped


def with_grouping(scenes: S, values: Mapping[str, Any]) -> S:
    """Group the same scores again with other values for all options in `Grouping`. Scenes with the same shots as before
    keep their names. Raises BasslError for values that the shots do not allow."""
    settings = {name: value for name, value in scenes.settings.items() if name != "edited_by_hand"}
    return with_scenes(scenes, choose_scenes(scenes.shots, **values), {**settings, **values})


def with_scenes(scenes: S, groups: Sequence[Scene], settings: Mapping[str, Any]) -> S:
    """Return a copy with other scenes. Scenes with the same shots as before keep their names; names from words are made
    again."""
    before = {(scene.start_shot, scene.end_shot): scene for scene in scenes.scenes}
    groups_with_names = []
    for scene in groups:
        same = before.get((scene.start_shot, scene.end_shot), scene)
        groups_with_names.append(replace(scene, name=same.name, named_by=same.named_by))
    warnings = length_warnings(scenes.video.path, groups_with_names, settings)
    return with_automatic_names(replace(scenes, settings=settings, scenes=tuple(groups_with_names), warnings=warnings))


def length_warnings(video: Path | str, scenes: Sequence[Scene], settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a line about scenes longer than the limit they were chosen with, and one about shorter ones, if any."""
    min_scene, max_scene = settings["min_scene"], settings["max_scene"]
    if not max_scene:
        return ()
    long = [scene for scene in scenes if scene.end - scene.start > max_scene + 1e-9]
    short = [scene for scene in scenes if scene.end - scene.start < min_scene - 1e-9]
    lines = []
    if long:
        single = all(scene.end_shot - scene.start_shot == 1 for scene in long)
        reason = "a shot is never cut" if single else "shots, and shots that were joined by hand, are never cut"
        lines.append(f"{_some(long)} longer than {max_scene:g} s, because {reason}")
    if short:
        lines.append(f"{_some(short)} shorter than {min_scene:g} s, so that none exceeds {max_scene:g} s")
    return tuple(f"{video}: {line}" for line in lines)


def _some(scenes: Sequence[Scene]) -> str:
    start = scenes[0].start_timecode
    return f"the scene at {start} is" if len(scenes) == 1 else f"{len(scenes)} scenes (the first at {start}) are"


def choose_scene_ends(
    scores: ArrayLike,
    ends: ArrayLike,
    threshold: float = 0.5,
    min_scene: float = 0.0,
    max_scene: float = math.inf,
    scenes: int | None = None,
    pins: Sequence[bool | None] = (),
) -> list[int]:
    """Choose the shots that end scenes, in increasing order, including the last shot of the video.

    Each possible end i has the gain logit(score_i) - logit(threshold). Pins always hold. No scene is longer than
    ``max_scene`` seconds, unless nothing inside can end one. Such choices with the fewest scenes
    shorter than ``min_scene`` seconds are compared, and the one with the greatest sum of gains is taken. Without a
    maximum and pins no scene is shorter, unless the video is; without limits these are the shots that score at least
    the threshold.

    Args:
        scores: (N,) probabilities that a scene ends with the shot; the last one is ignored.
        ends: (N,) end of each shot in seconds, from the beginning of the video.
        scenes: exact number of scenes, whatever the threshold.
        pins: (N,) whether a scene ends with the shot: True always, False never, None if the scores decide; the last one
            is ignored. Default: no pins.
    Raises BasslError if the video cannot be divided into this many scenes within these limits and pins.
    """
    scores, ends = np.asarray(scores, np.float64), np.asarray(ends, np.float64)
    if scenes is not None and not 1 <= scenes <= len(scores):
        raise BasslError(f"the video has {count(len(scores), 'shot')}, so it cannot be divided into {scenes} scenes")
    confirmed, refused = (np.array([pin is kind for pin in pins or [None] * len(scores)]) for kind in (True, False))
    refused[-1] = False  # the video always ends here
    possible = np.flatnonzero(~refused)  # only these shots can end scenes; those between them belong together
    # The small constant makes a score equal to the threshold a scene end.
    gains = (logit(scores) - logit(np.array(threshold)) + 1e-12)[possible]
    gains[-1] = 0.0
    # A scene that ends before i may begin at first[i] to i - 1, counted in possible ends; from enough[i] on it is too
    # short. It cannot begin before the last pinned end.
    times = np.concatenate([[0.0], ends[possible]])
    positions = np.arange(len(times))
    before = np.maximum(positions - 1, 0)
    pinned = np.maximum.accumulate(np.concatenate([[0], np.where(confirmed[possible], positions[1:], 0)]))[before]
    first = np.minimum(np.searchsorted(times, times - max_scene - 1e-9), before)
    first = np.maximum(first, pinned)
    enough = np.searchsorted(times, times - min_scene + 1e-9, side="right").clip(first, before + 1)
    scene_ends, short = _best_ends(gains, first, enough)
    if scenes is not None:
        _check_number(scenes, first, max_scene, any(confirmed) or any(refused))
        scene_ends, more_short = _best_ends(gains, first, enough, scenes)
        if more_short > short:
            raise BasslError(f"the video cannot be divided into {scenes} scenes of at least {min_scene:g} seconds")
    return [int(shot) for shot in possible[scene_ends]]


def _check_number(scenes: int, first: NDArray[np.intp], max_scene: float, is_pinned: bool) -> None:
    """Raise BasslError if this number of scenes is impossible; ``first`` is where each can begin at the earliest."""
    most, fewest = len(first) - 1, 0
    stop = most
    while stop > 0:
        fewest, stop = fewest + 1, int(first[stop])
    if not fewest <= scenes <= most:
        limits = f" of at most {max_scene:g} seconds" * (max_scene < math.inf) + " with these pins" * is_pinned
        numbers = f"{fewest} to {most}" if fewest < most else fewest
        raise BasslError(f"the video cannot be divided into {count(scenes, 'scene')}{limits}, only into {numbers}")


def _best_ends(
    gains: NDArray[np.float64], first: NDArray[np.intp], enough: NDArray[np.intp], scenes: int | None = None
) -> tuple[list[int], int]:
    """Find the best scene ends by dynamic programming over shots, for every number of scenes up to ``scenes`` at once,
    or for any number. Returns the ends, and how many scenes are too short.

    The value of a choice is a complex number, because these are ordered by their real part first: minus the number of
    scenes that are too short, and the sum of gains.
    """
    shots = len(gains)
    step, numbers = (0, 1) if scenes is None else (1, scenes + 1)
    best = np.full((shots + 1, numbers), complex(-np.inf, 0.0))  # best[i, k]: of the first i shots, in k scenes
    best[0, 0] = 0.0
    long_enough, too_short = _MovingMaximum(best), _MovingMaximum(best)
    for i in range(1, shots + 1):
        last = np.maximum(long_enough.over(first[i], enough[i]), too_short.over(enough[i], i) - 1)
        best[i, step:] = last[: numbers - step] + complex(0.0, gains[i - 1])
    ends, stop, number = [], shots, numbers - 1
    while stop > 0:
        ends.append(stop - 1)
        number -= step
        previous = best[first[stop] : stop, number].copy()
        previous[enough[stop] - first[stop] :] -= 1
        stop = int(first[stop] + np.argmax(previous))
    return ends[::-1], -int(best[shots, numbers - 1].real)


class _MovingMaximum:
    """Maxima over ranges of rows that only move forward, in constant time per row: each row before ``middle`` stores
    the maximum from itself up to ``middle``; one running maximum covers the later rows."""

    def __init__(self, rows: NDArray[np.complex128]) -> None:
        self.rows = rows
        self.lowest = np.full(rows.shape[1], complex(-np.inf, 0.0))
        self.base = self.middle = self.stop = 0
        self.earlier, self.later = rows[:0], self.lowest

    def over(self, start: int, stop: int) -> NDArray[np.complex128]:
        """Return the maximum of each column in rows [start, stop); minus infinity if there are none."""
        if start >= self.middle:
            self.base, self.middle = start, stop
            self.earlier = np.maximum.accumulate(self.rows[start:stop][::-1])[::-1]
            self.later = self.lowest
        elif stop > self.stop:
            self.later = np.maximum(self.later, self.rows[self.stop : stop].max(axis=0))
        self.stop = stop
        return self.lowest if start == stop else np.maximum(self.earlier[start - self.base], self.later)


def logit(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = np.clip(probability, 1e-9, 1 - 1e-9)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
