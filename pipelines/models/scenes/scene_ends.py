"""Choice of the shots that end scenes, from their scores and the user's constraints."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.errors import BasslError, count
from pipelines.models.calibration import sigmoid
from pipelines.models.scenes.scene_names import carried_names, with_automatic_names
from pipelines.scenes import Scene, SceneData, Segment, Shot, credit_cuts, group_shots, without_short

S = TypeVar("S", bound=SceneData)

_MOST_BYTES = 2**30  # while a number of scenes is chosen: values for each number and shot
_BLACK_GAIN = 1.0  # of the log odds of a scene end; docs/segments.md has how it was chosen
_BESIDE_BLACK = 0.1  # seconds between black and its cut, at most


def raise_at_black(shots: Sequence[Shot], segments: Sequence[Segment], gain: float = _BLACK_GAIN) -> tuple[Shot, ...]:
    """Return the shots with a higher score at black inside the video: at the most likely of its cuts, because black may
    be a shot of its own. Black before the first picture and after the last one is not inside."""
    raised, credits = list(shots), credit_cuts(shots, segments)
    ends = [shot.end for shot in shots[:-1]]
    for black in segments:
        if black.kind != "black" or black.start <= shots[0].start or black.end >= shots[-1].end:
            continue
        cuts = shots[bisect_left(ends, black.start - _BESIDE_BLACK) : bisect_right(ends, black.end + _BESIDE_BLACK)]
        if cuts and not any(shot.index in credits for shot in cuts):  # credits decide there
            likeliest = max(cuts, key=lambda shot: shot.score)
            score = float(sigmoid(logit(np.array(likeliest.score)) + gain))
            raised[likeliest.index] = replace(likeliest, score=score)
    return tuple(raised)


def choose_scenes(
    shots: Sequence[Shot],
    threshold: float,
    min_scene: float,
    max_scene: float,
    drop_short: bool,
    scenes: int | None,
    segments: Sequence[Segment] = (),
) -> tuple[Scene, ...]:
    """Choose the scenes of shots with scores and pins, as `bassl predict` does with these settings; a ``max_scene`` of
    0 means no limit. A scene ends at the outer ends of credits, unless a pin refuses it. Errors as for
    `choose_scene_ends`."""
    credits = credit_cuts(shots, segments)
    scores = [shot.score for shot in shots]
    pins = [credits.get(i) if shot.pinned is None else shot.pinned for i, shot in enumerate(shots)]
    ends = [shot.end - shots[0].start for shot in shots]
    least, longest = 0.0 if drop_short else min_scene, max_scene or math.inf
    grouped = group_shots(shots, choose_scene_ends(scores, ends, threshold, least, longest, scenes, pins))
    return without_short(grouped, min_scene) if drop_short else grouped


def with_grouping(scenes: S, values: Mapping[str, Any]) -> S:
    """Group the same scores again with other values for all options in `Grouping`. Scenes keep their
    names, see `with_scenes`. Raises BasslError for values that the shots do not allow."""
    settings = {name: value for name, value in scenes.settings.items() if name != "edited_by_hand"}
    groups = choose_scenes(scenes.shots, **values, segments=scenes.segments)
    return with_scenes(scenes, groups, {**settings, **values})


def with_scenes(scenes: S, groups: Sequence[Scene], settings: Mapping[str, Any]) -> S:
    """Return a copy with other scenes, with the names of scenes of which at most half the shots changed, and automatic
    names for the others."""
    groups = carried_names(scenes.scenes, groups)
    warnings = length_warnings(scenes.video.path, groups, settings)
    scenes = replace(scenes, settings=settings, scenes=tuple(groups), warnings=warnings)
    return with_automatic_names(scenes, made_again=False)


def length_warnings(video: Path | str, scenes: Sequence[Scene], settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a line about scenes longer than the limit they were chosen with, and one about shorter ones, if any."""
    min_scene, max_scene = settings["min_scene"], settings["max_scene"]
    if not max_scene:
        return ()
    lengths = [(scene, scene.end - scene.start) for scene in scenes]
    long = [scene for scene, seconds in lengths if seconds > max_scene + 1e-9]
    short = [scene for scene, seconds in lengths if seconds < min_scene - 1e-9]
    reasons = (
        (long, f"longer than {max_scene:g} s, because shots, also joined ones, are never cut"),
        (short, f"shorter than {min_scene:g} s, so that none exceeds {max_scene:g} s"),
    )
    return tuple(
        f"{video}: {count(len(some), 'scene')}, the first at {some[0].start_timecode}, {reason}"
        for some, reason in reasons
        if some
    )


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
    ``max_scene`` seconds, unless nothing inside can end one. Of such choices with the fewest scenes shorter than
    ``min_scene`` seconds, the one with the greatest sum of gains is taken. Without a maximum and pins no scene is
    shorter, unless the video is; without limits these are the shots that score at least the threshold.

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
        numbered_ends = _numbered_ends(gains, first, enough, short, scenes)
        if numbered_ends is None:
            number = count(scenes, "scene")
            raise BasslError(f"the video cannot be divided into {number} within these limits, pins and credits")
        scene_ends = numbered_ends
    return [int(shot) for shot in possible[scene_ends]]


def _best_ends(gains: NDArray[np.float64], first: NDArray[np.intp], enough: NDArray[np.intp]) -> tuple[list[int], int]:
    """Find the best scene ends by dynamic programming over shots. Returns them, and how many scenes are too short."""
    # Of the best choice up to each end: minus the number of scenes that are too short, and its gain.
    values = [(0, 0.0)]
    begins = [0]  # of the last scene of this choice
    long_enough, too_short = _MovingMaximum(values), _MovingMaximum(values)
    for i, gain in enumerate(gains.tolist(), 1):
        candidates = [
            (-short, total, -begin)  # the earliest of equals
            for begin, more in ((long_enough.over(first[i], enough[i]), 0), (too_short.over(enough[i], i), 1))
            if begin is not None
            for short, total in [(more - values[begin][0], values[begin][1])]
        ]
        short, total, begin = max(candidates)
        values.append((short, total + gain))
        begins.append(-begin)
    ends, stop = [], len(gains)
    while stop > 0:
        ends.append(stop - 1)
        stop = begins[stop]
    return ends[::-1], -values[-1][0]


class _MovingMaximum:
    """Maximum over ranges of a growing list that only move forward, in constant time on average."""

    def __init__(self, values: Sequence[tuple[int, float]]) -> None:
        self._values, self._stop = values, 0
        self._candidates: deque[int] = deque()  # each is the first maximum from the one before it on

    def over(self, start: int, stop: int) -> int | None:
        """Return the first maximum in [start, stop), or None for an empty range."""
        values, candidates = self._values, self._candidates
        for i in range(self._stop, stop):
            while candidates and values[candidates[-1]] < values[i]:
                candidates.pop()
            candidates.append(i)
        self._stop = max(self._stop, stop)
        while candidates and candidates[0] < start:
            candidates.popleft()
        return candidates[0] if candidates else None


def _numbered_ends(
    gains: NDArray[np.float64], first: NDArray[np.intp], enough: NDArray[np.intp], short: int, scenes: int
) -> list[int] | None:
    """Find the best scene ends for a number of scenes, or None if more than ``short`` scenes would be too short, the
    fewest of any number. A value is a sum of gains; if scenes must be too short, it is a complex number, because these
    are ordered by their real part first, which is minus the number of such scenes."""
    ends = len(gains)
    if scenes * ends * (16 if short else 8) > _MOST_BYTES:
        raise BasslError(f"{scenes:,} scenes of {ends:,} shots need too much memory; choose fewer, or a `threshold`")
    more: NDArray[Any] = gains * 1j if short else gains
    lowest = complex(-np.inf, 0.0) if short else -np.inf
    long_enough, too_short = _Ranges(first[1:], enough[1:]), _Ranges(enough[1:], np.arange(1, ends + 1))
    layer = np.full(ends + 1, lowest)
    layer[0] = 0.0
    layers = [layer]  # of the best choice of k scenes up to each end
    for _ in range(scenes - 1):
        best = long_enough.maxima(layers[-1], lowest)
        if short:
            best = np.maximum(best, too_short.maxima(layers[-1], lowest) - 1)
        layers.append(np.concatenate([[lowest], best + more]))
    least = -short - 0.5 if short else -np.inf
    stops = [ends]
    for layer in reversed(layers):
        start, stop = first[stops[-1]], stops[-1]
        values = layer[start : stop if short else enough[stop]].copy()
        values[enough[stop] - start :] -= 1
        if not len(values) or values.max().real <= least:
            return None
        stops.append(int(start + np.argmax(values)))
    return [stop - 1 for stop in stops[-2::-1]]


class _Ranges:
    """Ranges of positions in arrays, of whose maxima many are asked for."""

    def __init__(self, starts: NDArray[np.intp], stops: NDArray[np.intp]) -> None:
        self._empty = np.flatnonzero(starts >= stops)
        self._are_beginnings, self._last = not starts.any(), stops - 1
        # The largest power of two within each range: two ranges of this size cover it.
        sizes = np.maximum(np.frexp(stops - starts)[1] - 1, 0)
        self._sizes, rows = int(sizes.max()) + 1, sizes * (len(starts) + 1)
        self._left, self._right = rows + starts, rows + np.maximum(stops - 2**sizes, 0)

    def maxima(self, values: NDArray[Any], lowest: complex) -> NDArray[Any]:
        """Return the maximum of each range, ``lowest`` for an empty one."""
        if self._are_beginnings:
            maxima = np.maximum.accumulate(values).take(self._last, mode="clip")
        else:
            table = np.empty((self._sizes, len(values)), values.dtype)  # of 2**size values from each on
            table[0] = values
            for size in range(1, self._sizes):
                half = 2 ** (size - 1)
                np.maximum(table[size - 1, :-half], table[size - 1, half:], out=table[size, :-half])
            maxima = np.maximum(table.ravel().take(self._left), table.ravel().take(self._right))
        maxima[self._empty] = lowest
        return maxima


def logit(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = np.clip(probability, 1e-9, 1 - 1e-9)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
