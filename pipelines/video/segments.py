"""Black, color bars and credits, detected during the single decoding pass.

Black and color bars are found in the shot detector's small images. Credits are text over a plain or slow background.
Twice a second, the luma of a frame is divided into cells that are wide and low: a line of text has many edge pixels in
a cell, an outline few, a plain background none. The lowest quarter of the frame is left out because of subtitles.
Limits were chosen on the tuning videos of ``benchmarks/segments.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.scenes import Segment
from pipelines.video.images import Plane, RGBImage

_LOOKS_PER_SECOND = 2.0

_PLAIN_KINDS = ("", "black", "bars")
_BLACK, _BLACK_RANGE = 25, 16  # of a black image: the brightest channel, and how much darker the darkest is, at most
_SHORTEST = 0.5  # seconds of black or color bars
# White or gray, yellow, cyan, green, magenta, red and blue; at the edges of the frame there may be more bars.
_BARS = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [0, 1, 0], [1, 0, 1], [1, 0, 0], [0, 0, 1]], bool)
_LAYOUTS = ((0.0, 1 / 7), (0.0, 1 / 8), (1 / 8, 3 / 28))  # left edge of the first bar, and the width of each
_BAR_CENTERS = np.array([[left + width * (bar + 0.5) for bar in range(7)] for left, width in _LAYOUTS])
_OFF, _ON = 75, 120  # a channel of a bar is below the first, or above the second

_ROWS, _ROWS_SEEN, _COLUMNS = 60, 45, 13  # cells; the rows above subtitles
_LEAST_LINES = 180  # three rows of pixels in a cell; in fewer an outline has as many edges as a line of text
_EDGE = 24  # steps of luma between two neighboring pixels
_TEXT, _PLAIN = 51, 7  # edge pixels in a cell of text, at least, and in a plain one, at most, in 255ths
_LEAST_TEXT, _MOSTLY_TEXT = 0.01, 0.3  # share of the cells with text: of all cells, and of those that are not plain
_SLOW = 8  # steps of luma that the median of the plain cells changes from one look to the next, at most
_BLANK = 0.9  # share of plain cells of a frame between two cards
_BLANK_SECONDS, _OTHER_SECONDS = 8.0, 2.5  # between two cards without text, at most: blank, or with a figure
_SHORTEST_CREDITS, _SECONDS_OF_TEXT = 6.0, 3.0  # seconds with pauses, and without them
_OPENING, _ENDING = 0.2, 0.6  # opening credits begin before this share of the video, end credits after the second
# Slides have more text than this: share of the video that is credits, and of the rest of the video with text.
_MOST_CREDITS, _TEXT_ELSEWHERE = 0.5, 0.2
_NEAR = 3.0  # seconds between text and the cut before or after it, at most


class Look(NamedTuple):
    """Whether a frame is ``text`` over a plain background, ``blank``, or neither (``other``)."""

    frame: int
    kind: str


def plain_kinds(images: RGBImage) -> NDArray[np.uint8]:
    """Find black and color bars in small images (N, H, W, 3) uint8 RGB: indices of the kinds above, (N,)."""
    kinds, row = np.zeros(len(images), np.uint8), images[:, images.shape[1] // 3]
    for index in np.flatnonzero(row.max((1, 2)) <= _BLACK):  # few images are black in this row
        brightest, darkest = images[index].max(), images[index].min()
        kinds[index] = brightest <= _BLACK and brightest - darkest <= _BLACK_RANGE
    bars = row[:, (_BAR_CENTERS * row.shape[1]).astype(int)]  # (N, layouts, 7, 3)
    kinds[np.any(np.where(_BARS, bars > _ON, bars < _OFF).all((2, 3)), axis=1)] = 2
    return kinds


class SegmentSearch:
    """Search for segments in the frames of a video, in order. ``frame_rate``: frames per second, on average."""

    def __init__(self, frame_rate: float) -> None:
        self._step = max(1, round(frame_rate / _LOOKS_PER_SECOND))
        self._kinds = bytearray()  # of the frames, see `plain_kinds`
        self.looks: list[Look] = []
        self._last_samples: Plane | None = None

    def add(self, kind: int, luma: Plane) -> None:
        """Add the next frame, by its kind and its luma (H, W), 8 bits or 16."""
        if len(self._kinds) % self._step == 0:
            self.looks.append(Look(len(self._kinds), self._look_at(luma)))
        self._kinds.append(kind)

    def _look_at(self, luma: Plane) -> str:
        """Return the kind of a `Look` at a frame; in a small frame text cannot be told from outlines."""
        if luma.dtype != np.uint8:  # of a high dynamic range; limits are steps of 8 bits
            luma = (luma >> 8).astype(np.uint8)
        high, wide = luma.shape[0] // _ROWS, luma.shape[1] // (_COLUMNS + 1)
        if luma.shape[0] < _LEAST_LINES or not wide:
            return "other"
        height, width = high * _ROWS_SEEN, wide * _COLUMNS
        edges = cv2.absdiff(luma[:height, 1 : width + 1], luma[:height, :width])
        cv2.threshold(edges, _EDGE, 255, cv2.THRESH_BINARY, edges)
        cells = cv2.resize(edges, (_COLUMNS, _ROWS_SEEN), interpolation=cv2.INTER_AREA)  # fast: sizes are multiples
        plain = cells <= _PLAIN
        text, background = (np.count_nonzero(cell) / cells.size for cell in (cells >= _TEXT, plain))
        samples = luma[high // 2 : height : high, wide // 2 : width : wide].copy()  # one pixel of each cell
        before, self._last_samples = self._last_samples, samples
        is_text = text >= max(_LEAST_TEXT, _MOSTLY_TEXT * (1 - background))
        if is_text and (before is None or (plain.any() and np.median(cv2.absdiff(samples, before)[plain]) <= _SLOW)):
            return "text"
        return "blank" if background >= _BLANK else "other"

    def segments(self, starts: Sequence[int], times: Sequence[float], duration: float) -> list[Segment]:
        """Return black, color bars and credits. ``starts``: the first frames of shots; ``times``: the starts of the
        frames, and the end of the last one; ``duration``: of the whole video, in seconds."""
        segments, cuts, start = [], {*starts, len(self._kinds)}, 0
        for kind, run in groupby(self._kinds):
            end = start + len(list(run))
            if kind and times[end] - times[start] >= _SHORTEST:
                segments.append(Segment(_PLAIN_KINDS[kind], start, end, times[start], times[end]))
                cuts |= {start, end}
            start = end
        return segments + credit_segments(self.looks, sorted(cuts), times, duration)


def credit_segments(
    looks: Sequence[Look], cuts: Sequence[int], times: Sequence[float], duration: float
) -> list[Segment]:
    """Return the segments of opening and end credits. ``looks``: at even intervals, from frame 0 on; ``cuts``: the
    first frames of shots, from 0 on, and the number of frames; the others as in `SegmentSearch.segments`."""
    segments = []
    for first, last in _runs_of_text(looks, times):
        share = times[first] / duration
        kind = "opening_credits" if share < _OPENING else "end_credits" if share > _ENDING else ""
        before, after = max(cut for cut in cuts if cut <= first), min(cut for cut in cuts if cut > last)
        start = before if times[first] - times[before] <= _NEAR else first
        end = after if times[after] - times[last] <= _NEAR else last + 1
        text = sum(look.kind == "text" for look in looks if first <= look.frame <= last)
        is_long_enough = times[end] - times[start] >= _SHORTEST_CREDITS and text >= _SECONDS_OF_TEXT * _LOOKS_PER_SECOND
        if kind and is_long_enough:
            segments.append(Segment(kind, start, end, times[start], times[end]))
    rest = [look for look in looks if not any(s.start_frame <= look.frame < s.end_frame for s in segments)]
    elsewhere = sum(look.kind == "text" for look in rest)
    is_long = sum(segment.end - segment.start for segment in segments) > _MOST_CREDITS * duration
    return [] if is_long or elsewhere > _TEXT_ELSEWHERE * len(rest) else segments


def _runs_of_text(looks: Sequence[Look], times: Sequence[float]) -> list[tuple[int, int]]:
    """Return the first and last frame of each stretch of text; short pauses between cards do not end a stretch."""
    runs: list[tuple[int, int]] = []
    blank = other = 0.0  # seconds without text since the last frame with text
    for look, following in pairwise([*looks, Look(len(times) - 1, "other")]):
        if look.kind == "blank":
            blank += times[following.frame] - times[look.frame]
        elif look.kind == "other":
            other += times[following.frame] - times[look.frame]
        else:
            is_pause = bool(runs) and blank <= _BLANK_SECONDS and other <= _OTHER_SECONDS
            runs.append((runs.pop()[0] if is_pause else look.frame, look.frame))
            blank = other = 0.0
    return runs
