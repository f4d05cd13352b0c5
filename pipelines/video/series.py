"""What the episodes of a series repeat, by their pictures: an intro, an outro, and recaps of earlier episodes.

Each frame has a hash of 64 bits: whether each of 8 x 9 means of its picture, without black bars, is brighter than the
one to its left. It survives other sizes, qualities and frame rates. Two episodes share a span where the hashes of
one are those of the other at a constant distance in time. This is looked for four times a second, and the ends are
found at the full frame rate. Limits were chosen on generated videos, see docs/segments.md."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.video.images import RGBImage

_BAR = 32  # a row or column whose pixels are all darker is a black bar
_BRIGHTER = 2.0  # steps of brightness to a neighbor; less is noise, and a flat picture has no hash
_STEP = 0.25  # seconds between the looks at an episode
_NEAR = 10  # bits in which hashes of the same picture differ, at most
_GAP = 0.75  # seconds within a span in which pictures may differ, as under a caption
_LEAST_CHANGE = 0.3  # bits that change from look to look, for each that differs between the episodes
_SHORTEST = 8.0  # seconds of an intro, outro or recap
_SHORTEST_PIECE, _FEWEST_PIECES = 1.2, 4  # seconds of a piece of a recap, and pieces
_RECAP_GAP, _RECAP_END = 4.0, 300.0  # seconds between two pieces, at most, and from the start to the end of a recap
_LOGO_END = 30.0  # seconds from the start: what most other episodes show there is a logo
_MOST_SHARED = 0.5  # share of the shorter of two episodes; two that share more are cuts of one film


class Episode(NamedTuple):
    """The hash of each frame (N,) uint64, 0 for a flat one, and when it is shown (N,), in seconds."""

    hashes: NDArray[np.uint64]
    times: NDArray[np.float64]

    @property
    def length(self) -> float:
        """Return the time of its last frame."""
        return float(self.times[-1])

    def between(self, start: float, end: float) -> Episode:
        """Return the part between two times."""
        first, stop = np.searchsorted(self.times, [start, end])
        return Episode(self.hashes[first:stop], self.times[first:stop])

    def at(self, times: NDArray[np.float64]) -> NDArray[np.uint64]:
        """Return the hashes that are shown at some times; a rounded time may be slightly before its frame."""
        frames = np.searchsorted(self.times, times + 1e-3, side="right") - 1
        return self.hashes[np.clip(frames, 0, len(self.hashes) - 1)]


class Span(NamedTuple):
    """A part of an episode, in seconds; in another one it is so many seconds later."""

    start: float
    end: float
    later: float = 0.0

    @property
    def length(self) -> float:
        """Return its seconds."""
        return self.end - self.start


class PictureHashes:
    """Hashes of the pictures of a video, in order. Black bars are where no picture so far was brighter."""

    def __init__(self) -> None:
        self._brightest: NDArray[np.uint8] = np.zeros((1, 1), np.uint8)

    def of(self, pictures: RGBImage) -> NDArray[np.uint64]:
        """Return the hash of each of some pictures in a row (N, H, W, 3) uint8; of flat pictures 0."""
        green = pictures[..., 1]
        self._brightest = np.maximum(self._brightest, green.max(0))
        rows, columns = (np.flatnonzero(self._brightest.max(axis) > _BAR) for axis in (1, 0))
        if len(rows) < 8 or len(columns) < 9:
            return np.zeros(len(pictures), np.uint64)
        sums, areas = green[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], []
        for axis, parts in ((1, 8), (2, 9)):
            edges = np.arange(parts + 1) * sums.shape[axis] // parts
            areas.append(np.diff(edges))
            sums = np.add.reduceat(sums, edges[:-1], axis, dtype=np.uint32)
        means = sums / np.outer(*areas).astype(np.float32)
        brighter = (means[..., 1:] > means[..., :-1] + _BRIGHTER).reshape(len(means), 64)
        hashes: NDArray[np.uint64] = np.packbits(brighter, axis=1).view(np.uint64)[:, 0]
        return hashes


def find_repeats(episodes: Sequence[Episode]) -> tuple[list[dict[str, Span]], list[tuple[int, int]]]:
    """Return the intro (in the first half), outro (in the last) and recap of each episode of a series, by kind, and the
    pairs of episodes that are cuts of one film, which are not compared."""
    halves = {
        "intro": [episode.between(0.0, episode.length / 2) for episode in episodes],
        "outro": [episode.between(episode.length / 2, episode.length) for episode in episodes],
    }
    shared: dict[str, list[list[Span]]] = {kind: [[] for _ in episodes] for kind in halves}
    same: list[tuple[int, int]] = []
    for i, j in combinations(range(len(episodes)), 2):
        spans = {kind: shared_spans(half[i], half[j], _SHORTEST) for kind, half in halves.items()}
        seconds = sum(span.length for some in spans.values() for span in some)
        if seconds > _MOST_SHARED * min(episodes[i].length, episodes[j].length):
            same.append((i, j))
            continue
        for kind, some in spans.items():
            shared[kind][i] += some
            shared[kind][j] += [Span(start + later, end + later) for start, end, later in some]
    repeats: list[dict[str, Span]] = []
    for i, episode in enumerate(episodes):
        found: dict[str, Span] = {}
        for kind, of_kind in shared.items():
            spans_of_pairs = _groups(of_kind[i])
            medians = [Span(*np.median([span[:2] for span in group], axis=0).tolist()) for group in spans_of_pairs]
            if once := [span for span in medians if not _recurs(episode, span)]:
                found[kind] = max(once, key=lambda span: span.length)
        others = [j for j in range(len(episodes)) if j != i and (min(i, j), max(i, j)) not in same]
        if recap := _recap(episode, [episodes[j] for j in others if j < i], [episodes[j] for j in others], found):
            found["recap"] = recap
        repeats.append(found)
    return repeats, same


def shared_spans(first: Episode, second: Episode, shortest: float) -> list[Span]:
    """Return the spans of an episode, ``shortest`` seconds or more, in another one; the longest of overlapping ones."""
    if not len(first.times) or not len(second.times):
        return []
    a, b = (one.at(np.arange(one.times[0], one.times[-1], _STEP)) for one in (first, second))
    least, runs = int(shortest / _STEP), list[tuple[int, int, int]]()
    stride = max(1, min(4, least // 2))  # a run is seen at every fourth look, too
    for later in range(1 - len(a), len(b)):
        start, stop = max(0, -later), min(len(a), len(b) - later)
        coarse = _equal(a[start:stop:stride], b[start + later : stop + later : stride])
        if np.count_nonzero(coarse) * stride < least // 2:
            continue
        where = np.flatnonzero(_equal(a[start:stop], b[start + later : stop + later])) + start
        for run in np.split(where, np.flatnonzero(np.diff(where) > _GAP / _STEP + 1) + 1):
            if len(run) and least - 1 <= (length := int(run[-1]) + 1 - int(run[0])) < 2 * len(run):
                runs.append((length, int(run[0]), later))
    spans: list[Span] = []
    taken = np.zeros(len(a), bool)
    for length, begin, later in sorted(runs, reverse=True):
        if not taken[begin : begin + length].any():
            taken[begin : begin + length] = True
            start_time = float(first.times[0]) + begin * _STEP
            distance = float(second.times[0] - first.times[0]) + later * _STEP
            span = _refined(first, second, Span(start_time, start_time + length * _STEP, distance))
            if span.length >= shortest and _is_repeat(first, second, span):
                spans.append(span)
    return sorted(spans)


def _equal(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.bool_]:
    equal: NDArray[np.bool_] = (np.bitwise_count(a ^ b) <= _NEAR) & (a != 0) & (b != 0)
    return equal


def _refined(first: Episode, second: Episode, span: Span) -> Span:
    """Return a span with the distance at which most frames are equal, and its ends at frames."""
    inside = first.between(span.start, span.end)
    distances = span.later + np.arange(-_STEP, _STEP + 1e-6, 1 / 120)
    equal = [np.count_nonzero(_equal(inside.hashes, second.at(inside.times + later))) for later in distances]
    best = np.flatnonzero(np.array(equal) == max(equal))
    later = float(distances[best[len(best) // 2]])
    hashes, times = first.between(span.start - 2 * _STEP, span.end + 2 * _STEP)
    where = np.flatnonzero(_equal(hashes, second.at(times + later)))
    if not len(where):
        return Span(span.start, span.start, later)
    return Span(float(times[where[0]]), float(times[min(where[-1] + 1, len(times) - 1)]), later)


def _is_repeat(first: Episode, second: Episode, span: Span) -> bool:
    """Return whether a span is more than a still, or a set that is filmed again, which are like themselves at any time:
    a long one has a cut, or changes from look to look more than it differs; a short one about a third as much."""
    times = np.arange(span.start, span.end, _STEP)
    pictures, others = first.at(times), second.at(times + span.later)
    changes, difference = np.bitwise_count(pictures[1:] ^ pictures[:-1]), np.bitwise_count(pictures ^ others).mean()
    if span.length < _SHORTEST:
        return bool(changes.mean() >= _LEAST_CHANGE * difference)
    return bool(changes.max() > _NEAR or changes.mean() >= difference)


def _groups(spans: Sequence[Span]) -> list[list[Span]]:
    """Group spans that share half of the shorter with one of their group."""
    groups: list[list[Span]] = []
    for span in sorted(spans):
        for group in groups:
            if any(2 * (min(span.end, one.end) - span.start) > min(span.length, one.length) for one in group):
                group.append(span)
                break
        else:
            groups.append([span])
    return groups


def _recurs(episode: Episode, span: Span) -> bool:
    """Return whether a span is in its episode a second time."""
    part = episode.between(span.start, span.end)
    others = episode.between(0.0, span.start), episode.between(span.end, np.inf)
    return any(shared_spans(part, other, _SHORTEST) for other in others)


def _recap(
    episode: Episode, earlier: Sequence[Episode], others: Sequence[Episode], repeats: dict[str, Span]
) -> Span | None:
    """Return the longest row of pieces in the first half, near the start, that are in earlier episodes, with short
    gaps, or None. A piece at the start of most other episodes is a logo."""
    beginning = episode.between(0.0, min(_RECAP_END, episode.length / 2))
    pieces = [
        piece
        for other in earlier
        for piece in shared_spans(beginning, other, _SHORTEST_PIECE)
        if not any(piece.start < one.end and one.start < piece.end for one in repeats.values())
    ]
    openings, rows = [other.between(0.0, _LOGO_END) for other in others], list[list[Span]]()
    for group in _groups(pieces):
        piece = max(group, key=lambda one: one.length)
        part = episode.between(piece.start, piece.end)
        if 2 * sum(bool(shared_spans(part, opening, _SHORTEST_PIECE)) for opening in openings) > len(openings):
            continue
        if not rows or piece.start - rows[-1][-1].end > _RECAP_GAP:
            rows.append([])
        rows[-1].append(piece)
    spans = [Span(row[0].start, row[-1].end) for row in rows if len(row) >= _FEWEST_PIECES]
    return max((span for span in spans if span.length >= _SHORTEST), key=lambda span: span.length, default=None)
