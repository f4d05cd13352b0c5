"""What the episodes of a series share by their pictures: an intro, an outro, and recaps of earlier episodes.

Each frame has a hash of 64 bits: the signs of the differences between neighbors in a row of 8 x 9 means of its picture
without black bars. It survives other sizes, qualities and frame rates. Two episodes share a span where the hashes of
one are those of the other at a constant distance in time. This is looked for four times a second, and the ends are
found at the full frame rate. Limits were chosen on generated videos, see docs/segments.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.video.frames import RGBImage

Hashes = NDArray[np.uint64]
Times = NDArray[np.float64]

_BAR = 32  # a row or column whose pixels are all darker is a black bar
_FLAT = 10  # steps of brightness between the darkest and the brightest mean; a flatter picture has no hash
_STEP = 0.25  # seconds between the looks at an episode
_NEAR = 10  # bits in which hashes of the same picture differ, at most
_SHORTEST = 8.0  # seconds of a span that two episodes share
_SHORTEST_PIECE = 1.2  # seconds of a piece of a recap
_GAP = 0.75  # seconds within a span in which pictures may differ, as under a caption
_RECAP_GAP = 4.0  # seconds between two pieces of a recap, at most
_RECAP_END = 300.0  # seconds from the start in which a recap may be
_MOST_SHARED = 0.5  # share of the shorter of two episodes; two that share more are cuts of one film


class Episode(NamedTuple):
    """The hash of each frame, 0 for a flat one, and when each frame is shown, in seconds."""

    hashes: Hashes
    times: Times


class Span(NamedTuple):
    """A part of an episode, in seconds, and where it is in another one: so many seconds later."""

    start: float
    end: float
    later: float


def hash_pictures(pictures: RGBImage) -> Hashes:
    """Return the hash of each of some pictures in a row (N, H, W, 3) uint8; of flat pictures 0."""
    green = pictures[..., 1]
    brightest = green.max(0)
    rows, columns = (np.flatnonzero(brightest.max(axis) > _BAR) for axis in (1, 0))
    if len(rows) < 8 or len(columns) < 9:
        return np.zeros(len(pictures), np.uint64)
    inside = green[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    sums = inside
    for axis, parts in ((1, 8), (2, 9)):
        edges = np.arange(parts) * inside.shape[axis] // parts
        sums = np.add.reduceat(sums, edges, axis, dtype=np.uint32)
    areas = np.outer(
        *(np.diff(np.arange(parts + 1) * size // parts) for parts, size in zip((8, 9), inside.shape[1:], strict=True))
    )
    means = sums / areas.astype(np.float32)
    bits = np.packbits((means[..., 1:] > means[..., :-1]).reshape(len(means), 64), axis=1)
    hashes: Hashes = bits.view(np.uint64)[:, 0]
    hashes[means.max((1, 2)) - means.min((1, 2)) < _FLAT] = 0
    return hashes


def _sampled(episode: Episode, step: float = _STEP) -> Hashes:
    """Return the hash that is shown at each multiple of ``step`` seconds."""
    at = np.arange(0.0, episode.times[-1], step)
    return episode.hashes[np.maximum(np.searchsorted(episode.times, at + 1e-6, side="right") - 1, 0)]


def _equal(a: Hashes, b: Hashes) -> NDArray[np.bool_]:
    equal: NDArray[np.bool_] = (np.bitwise_count(a ^ b) <= _NEAR) & (a != 0) & (b != 0)
    return equal


def _runs(equal: NDArray[np.bool_], gap: int, least: int) -> Iterator[tuple[int, int]]:
    """Yield the half-open ranges of at least ``least`` looks that begin and end with equal ones, and in which no more
    than ``gap`` looks in a row differ."""
    where = np.flatnonzero(equal)
    if not len(where):
        return
    breaks = np.flatnonzero(np.diff(where) > gap + 1)
    for first, last in zip(where[np.r_[0, breaks + 1]], where[np.r_[breaks, len(where) - 1]], strict=True):
        if last + 1 - first >= least and 2 * np.count_nonzero(equal[first : last + 1]) > last + 1 - first:
            yield int(first), int(last) + 1


def shared_spans(first: Episode, second: Episode, shortest: float, until: float | None = None) -> list[Span]:
    """Return the spans of ``shortest`` seconds or more of one episode, up to a time, that are in another one, too; of
    spans that overlap the longest."""
    a, b = _sampled(first), _sampled(second)
    a = a[: None if until is None else int(until / _STEP)]
    least, gap = int(shortest / _STEP), int(_GAP / _STEP)
    found = []
    stride = max(1, min(4, least // 2))  # a run is seen at every fourth look, too
    for later in range(1 - len(a), len(b)):
        start, stop = max(0, -later), min(len(a), len(b) - later)
        if stop - start < least:
            continue
        coarse = _equal(a[start:stop:stride], b[start + later : stop + later : stride])
        if np.count_nonzero(coarse) * stride < least // 2:
            continue
        equal = _equal(a[start:stop], b[start + later : stop + later])
        found += [(end - begin, begin + start, later) for begin, end in _runs(equal, gap, least - 1)]
    spans: list[Span] = []
    taken = np.zeros(len(a), bool)
    for length, begin, later in sorted(found, reverse=True):
        if not taken[begin : begin + length].any():
            taken[begin : begin + length] = True
            span = _refined(first, second, begin * _STEP, (begin + length) * _STEP, later * _STEP)
            if span.end - span.start >= shortest:
                spans.append(span)
    return sorted(spans)


def _refined(first: Episode, second: Episode, start: float, end: float, later: float) -> Span:
    """Return a span with the distance at which most frames are equal, and its ends at frames."""
    inside = (first.times >= start) & (first.times < end)
    offsets = later + np.arange(-_STEP, _STEP + 1e-6, 1 / 120)
    matching = [np.count_nonzero(_equal_frames(first, second, inside, offset)) for offset in offsets]
    best = np.flatnonzero(np.array(matching) == max(matching))
    later = float(offsets[best[len(best) // 2]])
    around = (first.times >= start - 2 * _STEP) & (first.times < end + 2 * _STEP)
    where = np.flatnonzero(around)[_equal_frames(first, second, around, later)]
    if not len(where):
        return Span(start, start, later)
    last = min(where[-1] + 1, len(first.times) - 1)
    return Span(float(first.times[where[0]]), float(first.times[last]), later)


def _equal_frames(first: Episode, second: Episode, chosen: NDArray[np.bool_], later: float) -> NDArray[np.bool_]:
    at = np.searchsorted(second.times, first.times[chosen] + later + 1e-3, side="right") - 1
    return _equal(first.hashes[chosen], second.hashes[np.clip(at, 0, len(second.hashes) - 1)])


def find_repeats(episodes: Sequence[Episode]) -> tuple[list[dict[str, tuple[float, float]]], list[tuple[int, int]]]:
    """Return the intro, outro and recap of each episode, in seconds by kind, and the pairs that are cuts of one film,
    which are not compared. Episodes are in the order of the series."""
    candidates: dict[tuple[int, str], list[tuple[float, float]]] = {}
    same: list[tuple[int, int]] = []
    halves = {"intro": [_part(one, 0.0, 0.5) for one in episodes], "outro": [_part(one, 0.5, 1.0) for one in episodes]}
    for pair in combinations(range(len(episodes)), 2):
        first, second = pair
        spans = {kind: shared_spans(half[first], half[second], _SHORTEST) for kind, half in halves.items()}
        shared = sum(span.end - span.start for some in spans.values() for span in some)
        if shared > _MOST_SHARED * min(_length(episodes[one]) for one in pair):
            same.append(pair)
            continue
        for kind, in_half in spans.items():
            for start, end, later in in_half:
                for one, begin in ((first, start), (second, start + later)):
                    offset = 0.0 if kind == "intro" else _length(episodes[one]) / 2
                    candidates.setdefault((one, kind), []).append((begin + offset, begin + offset + end - start))
    found: list[dict[str, tuple[float, float]]] = [{} for _ in episodes]
    for (one, kind), shown in candidates.items():
        medians = [(median(s for s, _ in group), median(e for _, e in group)) for group in _overlapping(shown)]
        medians = [span for span in medians if not _recurs(episodes[one], *span)]
        if medians:
            found[one][kind] = max(medians, key=lambda span: span[1] - span[0])
    for one in range(1, len(episodes)):
        earlier = [other for other in range(one) if (other, one) not in same]
        pieces = _pieces(episodes, one, earlier, list(found[one].values()))
        if (recap := _recap(pieces)) is not None:
            found[one]["recap"] = recap
    return found, same


def _length(episode: Episode) -> float:
    return float(episode.times[-1])


def _part(episode: Episode, start: float, end: float) -> Episode:
    """Return a part of an episode, from one share of its length to another; its times count from its start."""
    first, stop = np.searchsorted(episode.times, [start * _length(episode), end * _length(episode)])
    return Episode(episode.hashes[first:stop], episode.times[first:stop] - start * _length(episode))


def _overlapping(spans: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Group spans that share half of the shorter with one of their group."""
    groups: list[list[tuple[float, float]]] = []
    for span in sorted(spans):
        for group in groups:
            if any(2 * (min(span[1], end) - span[0]) > min(span[1] - span[0], end - start) for start, end in group):
                group.append(span)
                break
        else:
            groups.append([span])
    return groups


def _recurs(episode: Episode, start: float, end: float) -> bool:
    """Return whether a span is in its episode a second time."""
    inside = (episode.times >= start) & (episode.times < end)
    span = Episode(episode.hashes[inside], episode.times[inside] - start)
    return any(abs(other.later - start) > 1.0 for other in shared_spans(span, episode, _SHORTEST / 2))


def _pieces(
    episodes: Sequence[Episode], one: int, earlier: Sequence[int], repeats: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return the pieces near an episode's start that are in earlier ones, but not in most of several, as a logo is."""
    pieces = [
        (start, end)
        for other in earlier
        for start, end, _ in shared_spans(episodes[one], episodes[other], _SHORTEST_PIECE, _RECAP_END)
        if not any(start < stop and begin < end for begin, stop in repeats)
    ]
    groups = _overlapping(pieces)
    return sorted(
        max(group, key=lambda piece: piece[1] - piece[0]) for group in groups if 2 * len(group) <= max(2, len(earlier))
    )


def _recap(pieces: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the longest row of pieces with short gaps, if it is a recap: two pieces or more, or a long one."""
    rows: list[list[tuple[float, float]]] = []
    for piece in pieces:
        if rows and piece[0] - rows[-1][-1][1] <= _RECAP_GAP:
            rows[-1].append(piece)
        else:
            rows.append([piece])
    spans = [(row[0][0], row[-1][1]) for row in rows if len(row) > 1 or row[0][1] - row[0][0] >= _SHORTEST]
    return max(spans, key=lambda span: span[1] - span[0], default=None)
