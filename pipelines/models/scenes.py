"""Choice of the shots that end scenes, from their scores and the user's constraints; and names of the scenes."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.errors import BasslError, count
from pipelines.models.calibration import logit, sigmoid
from pipelines.scenes import SEGMENTS, Scene, SceneData, Segment, Shot, credit_cuts, group_shots, without_short

S = TypeVar("S", bound=SceneData)

_MOST_BYTES = 2**30  # while a number of scenes is chosen: values for each number and shot
_BLACK_GAIN = 1.0  # of the log odds of a scene end; docs/segments.md has how it was chosen
_BESIDE_BLACK = 0.1  # seconds between black and its cut, at most


def raise_at_black(shots: Sequence[Shot], segments: Sequence[Segment], gain: float = _BLACK_GAIN) -> tuple[Shot, ...]:
    """Return the shots with a higher score at black inside the video: at the most likely of its cuts, because black may
    be a shot of its own."""
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
    """Choose the scenes of shots with scores and pins; a ``max_scene`` of 0 means no limit. A scene ends at the outer
    ends of credits, unless a pin refuses it. Errors as for `choose_scene_ends`."""
    credits = credit_cuts(shots, segments)
    scores = [shot.score for shot in shots]
    pins = [credits.get(i) if shot.pinned is None else shot.pinned for i, shot in enumerate(shots)]
    ends = [shot.end - shots[0].start for shot in shots]
    least, longest = 0.0 if drop_short else min_scene, max_scene or math.inf
    grouped = group_shots(shots, choose_scene_ends(scores, ends, threshold, least, longest, scenes, pins))
    return without_short(grouped, min_scene) if drop_short else grouped


def with_grouping(scenes: S, values: Mapping[str, Any]) -> S:
    """Group the same scores again with other values for all options in `Grouping`; names as in `with_scenes`. Raises
    BasslError for values that the shots do not allow."""
    settings = {name: value for name, value in scenes.settings.items() if name != "edited_by_hand"}
    groups = choose_scenes(scenes.shots, **values, segments=scenes.segments)
    return with_scenes(scenes, groups, {**settings, **values})


def with_scenes(scenes: S, groups: Sequence[Scene], settings: Mapping[str, Any]) -> S:
    """Return a copy with other scenes, with the names of scenes that changed little, and automatic names for others."""
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
    """Find the best scene ends for a number of scenes, or None if more than ``short`` scenes would be too short. A
    value is a sum of gains; if scenes must be too short, it is a complex number, because these are ordered by their
    real part first, which is minus the number of such scenes."""
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


# --- names of scenes from their content: words and credits ------------------------------------------------------------

_MOST_TERMS, _LONGEST = 3, 40
_SHARED = 3  # scenes with one name: too many to tell them apart
_CREDITS = 0.9  # share of a scene that is credits
_FEWEST_WORDS = 10  # of a text whose language can be told
_STOP_WORDS = 0.2  # share of the words of a text: about half are in the list of their language, few in others
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")  # Thai, Lao, Japanese and Chinese


def with_automatic_names(scenes: S, made_again: bool = True) -> S:
    """Name each scene that neither a person nor a program named: as credits, if it is almost only credits, or else by
    up to three terms that distinguish its words from the other scenes, by TF-IDF (Spärck Jones, A statistical
    interpretation of term specificity, 1972), without the stop words of the language. A name from words that three
    scenes would share gets more terms, or else is left out. Without ``made_again`` names from words stay."""
    said = [list(_terms(" ".join(line.text for line in scenes.lines_of(scene)))) for scene in scenes.scenes]
    # A term is written as inside a sentence if it ever occurs there: lower case sorts after upper case.
    written = {term.casefold(): term for term in sorted({term for terms in said for term in terms})}
    counts = [Counter(term.casefold() for term in terms) for terms in said]
    scenes_with = Counter(term for times in counts for term in times)
    spoken, stop = sum(map(bool, counts)), _stop_words(sum(counts, Counter()))
    credits = sorted((part for part in scenes.segments if part.is_credits), key=lambda part: part.start)
    starts = [part.start for part in credits]
    names: list[Scene] = []
    further: list[list[str]] = []  # terms beyond the name, for each scene that is named by words now
    for scene, times in zip(scenes.scenes, counts, strict=True):
        rest: list[str] = []
        if scene.lacks_name and (made_again or scene.named_by != "words"):
            terms = {term: n for term, n in times.items() if not _is_stop_word(term, stop)}
            weights = {term: n * math.log(spoken / scenes_with[term]) for term, n in terms.items()}
            best = sorted((term for term in weights if weights[term] > 0), key=lambda t: (-weights[t], -len(t), t))
            best = best[:_MOST_TERMS]
            used = sum(weights[term] >= weights[best[0]] / 2 for term in best)
            rest = [written[term] for term in best[used:]]
            name = ", ".join(written[term] for term in best[:used]) or None
            scene = replace(scene, name=name, named_by=name and "words")
            # Only credits that contain the middle of a scene can be most of it; credits do not overlap.
            begun = bisect_right(starts, (scene.start + scene.end) / 2)
            for part in credits[max(0, begun - 1) : begun]:
                overlap = min(part.end, scene.end) - max(part.start, scene.start)
                if overlap >= _CREDITS * (scene.end - scene.start):
                    scene = replace(scene, name=SEGMENTS[part.kind].capitalize(), named_by="credits")
        names.append(scene)
        further.append(rest)
    return replace(scenes, scenes=tuple(_distinct(names, further)))


def _distinct(scenes: Sequence[Scene], further: Sequence[Sequence[str]]) -> Iterator[Scene]:
    """Yield scenes of which no three share a name from words."""
    shared = {name for name, n in Counter(scene.name for scene in scenes).items() if n >= _SHARED}
    longer = []
    for scene, terms in zip(scenes, further, strict=True):
        is_shared = scene.name in shared and scene.named_by == "words"
        longer.append(replace(scene, name=", ".join([str(scene.name), *terms])) if is_shared else scene)
    totals = Counter(scene.name for scene in longer)
    for scene in longer:
        is_shared = scene.named_by == "words" and totals[scene.name] >= _SHARED
        yield replace(scene, name=None, named_by=None) if is_shared else scene


def carried_names(before: Sequence[Scene], scenes: Sequence[Scene]) -> list[Scene]:
    """Return scenes with the names of earlier ones: a name stays until more than half as many shots as its scene had
    joined or left it. Of two equal halves of a scene neither has its name."""
    starts, named = [scene.start_shot for scene in scenes], list(scenes)

    def change(old: Scene, new: Scene) -> int:
        return abs(new.start_shot - old.start_shot) + abs(new.end_shot - old.end_shot)

    for old in before:
        first, end = max(0, bisect_right(starts, old.start_shot) - 1), bisect_left(starts, old.end_shot)
        most = (old.end_shot - old.start_shot) // 2
        same = [index for index in range(first, end) if change(old, scenes[index]) <= most]
        if old.name and len(same) == 1 and (scenes[same[0]].name is None or not change(old, scenes[same[0]])):
            named[same[0]] = replace(scenes[same[0]], name=old.name, named_by=old.named_by)
    return named


class _Signs(dict[int, str]):
    """A table for `str.translate` in which only letters, the marks that belong to them, and apostrophes stay."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        is_kept = unicodedata.category(sign)[0] in "LM" or sign in "'\u200c\u200d"
        self[code] = sign if is_kept else "'" if sign == "\u2019" else " "
        return self[code]


_SIGNS = _Signs()


def _terms(text: str) -> Iterator[str]:
    """Yield words in Unicode's form NFC: letters with their marks; in scripts without spaces, pairs of characters."""
    for word in text.translate(_SIGNS).split():
        if _UNSPACED.search(word):
            characters: list[str] = []
            for sign in word:
                if characters and unicodedata.category(sign)[0] == "M":
                    characters[-1] += sign
                else:
                    characters.append(sign)
            yield from map("".join, pairwise(characters))
        elif len(word) <= _LONGEST and (word := unicodedata.normalize("NFC", word).strip("'")):
            yield word


def _stop_words(counts: Counter[str]) -> frozenset[str]:
    """Return the stop words of a text's language: the one whose list has most of its words; empty if none has many."""
    if counts.total() < _FEWEST_WORDS:
        return frozenset()
    from stopwordsiso import langs, stopwords  # start-up time; only for subtitles

    occurrences = Counter(counts)
    for term, n in counts.items():
        if _UNSPACED.search(term):
            occurrences.update(dict.fromkeys(term, n))
    lists = {language: stopwords(language) for language in sorted(langs())}
    shares = {language: sum(occurrences[word] for word in words) for language, words in lists.items()}
    best = max(shares, key=lambda language: (shares[language], -len(lists[language])))
    return frozenset(lists[best] if shares[best] >= _STOP_WORDS * counts.total() else ())


def _is_stop_word(term: str, stop: frozenset[str]) -> bool:
    """Return whether a term says nothing about a scene: a stop word, also as in «they'd», or a pair of characters of
    which one is a stop word; and what is shorter than three letters."""
    if _UNSPACED.search(term):
        return term in stop or not stop.isdisjoint(term)
    return len(term) < 3 or term in stop or all(part in stop for part in term.split("'"))
