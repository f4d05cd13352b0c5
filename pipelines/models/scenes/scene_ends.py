"""Choice of the shots that end scenes, from their scores and the user's constraints."""

from __future__ import annotations

import math
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

# Values that are kept while a number of scenes is chosen; at least so many layers of a value for each shot.
_MOST_VALUES, _LEAST_LAYERS = 2**24, 16


_BLACK_GAIN = 1.0  # of the log odds of a scene end; docs/segments.md has how it was chosen
_BESIDE_BLACK = 0.1  # seconds between black and its cut, at most


def raise_at_black(shots: Sequence[Shot], segments: Sequence[Segment], gain: float = _BLACK_GAIN) -> tuple[Shot, ...]:
    """Return the shots with a higher score at black inside the video: at the most likely of its cuts, because black may
    be a shot of its own. Black before the first picture and after the last one is not inside."""
    raised, credits = list(shots), credit_cuts(shots, segments)
    for black in segments:
        if black.kind != "black" or black.start <= shots[0].start or black.end >= shots[-1].end:
            continue
        cuts = [s for s in shots[:-1] if black.start - _BESIDE_BLACK <= s.end <= black.end + _BESIDE_BLACK]
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
        numbered_ends = _NumberedEnds(gains, first, enough, short).choose(scenes)
        if numbered_ends is None:
            raise BasslError(f"the video cannot be divided into {scenes} scenes of at least {min_scene:g} seconds")
        scene_ends = numbered_ends
    return [int(shot) for shot in possible[scene_ends]]


def _check_number(scenes: int, first: NDArray[np.intp], max_scene: float, is_pinned: bool) -> None:
    """Raise BasslError if this number of scenes is impossible; ``first`` is where each can begin at the earliest."""
    most, fewest = len(first) - 1, 0
    stop = most
    while stop > 0:
        fewest, stop = fewest + 1, int(first[stop])
    if not fewest <= scenes <= most:
        limits = (
            f" of at most {max_scene:g} seconds" * (max_scene < math.inf) + " with these pins and credits" * is_pinned
        )
        numbers = f"{fewest} to {most}" if fewest < most else fewest
        raise BasslError(f"the video cannot be divided into {count(scenes, 'scene')}{limits}, only into {numbers}")


def _best_ends(gains: NDArray[np.float64], first: NDArray[np.intp], enough: NDArray[np.intp]) -> tuple[list[int], int]:
    """Find the best scene ends by dynamic programming over shots. Returns them, and how many scenes are too short."""
    values = [
        (0, 0.0)
    ]  # of the best choice up to each end: minus the number of scenes that are too short, and its gain
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


class _NumberedEnds:
    """The best scene ends for a number of scenes, with ``short`` scenes that are too short, the fewest of any number.

    A layer has the value of the best choice of k scenes up to each end. The next layer follows from it, so that few
    are kept, and the others are computed again: memory grows with the number of shots, not with that of scenes too.
    A value is the sum of gains; if scenes must be too short, it is a complex number, because these are ordered by their
    real part first, which is minus the number of such scenes.
    """

    def __init__(
        self, gains: NDArray[np.float64], first: NDArray[np.intp], enough: NDArray[np.intp], short: int
    ) -> None:
        self._first, self._enough, self._short = first, enough, short
        self._gains: NDArray[Any] = 1j * gains if short else gains
        self._lowest = complex(-np.inf, 0.0) if short else -np.inf
        self._long_enough = _Ranges(first[1:], enough[1:])
        self._too_short = _Ranges(enough[1:], np.arange(1, len(first)))
        self._most_layers = max(_LEAST_LAYERS, _MOST_VALUES // len(first))

    def choose(self, scenes: int) -> list[int] | None:
        """Return the shots that end scenes, or None if more scenes would be too short."""
        layer = np.full(len(self._first), self._lowest)
        layer[0] = 0.0
        ends = [len(self._first) - 1]
        return [end - 1 for end in ends[-2::-1]] if self._walk(layer, 0, scenes, ends) else None

    def _walk(self, layer: NDArray[Any], low: int, high: int, begins: list[int]) -> bool:
        """Append where scenes ``high - 1`` to ``low`` begin, each up to the last of ``begins``, from the layer of
        ``low`` scenes. Returns whether there are such scenes."""
        step = -(-(high - low) // self._most_layers)
        layers = [layer]
        for number in range(low + 1, high):
            layer = self._following(layer)
            if (number - low) % step == 0:
                layers.append(layer)
        for i, layer in reversed([*enumerate(layers)]):
            start, stop = low + i * step, min(low + (i + 1) * step, high)
            if not (self._walk(layer, start, stop, begins) if step > 1 else self._step(layer, begins)):
                return False
        return True

    def _step(self, layer: NDArray[Any], begins: list[int]) -> bool:
        stop = begins[-1]
        first, enough = self._first[stop], self._enough[stop]
        values = layer[first : stop if self._short else enough].copy()
        values[enough - first :] -= 1
        least = -np.inf if not self._short else -self._short - 0.5  # more scenes would be too short
        if not len(values) or values.max().real <= least:
            return False
        begins.append(int(first + np.argmax(values)))
        return True

    def _following(self, layer: NDArray[Any]) -> NDArray[Any]:
        """Return the layer of one more scene."""
        best = self._long_enough.maxima(layer, self._lowest)
        if self._short:
            best = np.maximum(best, self._too_short.maxima(layer, self._lowest) - 1)
        return np.concatenate([[self._lowest], best + self._gains])


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
