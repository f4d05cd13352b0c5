"""Detection of cuts, dissolves, fades and wipes, robust to motion, lighting changes and flashes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.video.images import RGBImage
from pipelines.video.mixtures import (
    CELLS,
    COLUMNS,
    FLAT,
    LONGEST,
    ROWS,
    Floats,
    Samples,
    Window,
    frame_descriptors,
    windows,
)
from pipelines.video.shots import Boundary

_SAMPLES_PER_SECOND = 30.0  # of videos with more frames per second, every second frame is sampled, every third, ...
_CLOCK_RATE = 250.0  # a higher rate is the tick of the clock, as in Matroska with a variable rate
_LONGEST_FADE = 96  # samples from the first one that fades out to the last one that fades in
_CHUNK = 64  # samples that are searched together
_SETTLE = 16  # samples without a better overlapping window after which a window is final
_WAIT = LONGEST + _SETTLE  # samples after which a result is final

_LONGEST_SECONDS = 3.3  # of a dissolve, a wipe or half a fade: with few frames per second, LONGEST would be a minute

# A flash: the image returns after at most this number of samples and seconds; it is the same if it differs by less than
# this share of the jump.
_FLASH, _FLASH_SECONDS, _SAME_IMAGE = 9, 0.5, 0.45
_BUFFERED = _WAIT + 2 * (_CHUNK + _FLASH)  # samples
_MIN_JUMP = 8.0  # root mean squared change of the cells at a hard cut, at least: in the dark, hues alone may jump
# At a cut, at least the first share of the cells changes by more than _STILL, or the cells as a whole change at least
# _ABRUPT times as much as before and after it; otherwise an object moves fast.
_CUT_AREA, _STILL, _ABRUPT = 0.8, 8.0, 3.5
# After a pause of more seconds, it is a cut if two images are unlike in places and in colors: in one shot one of both
# may change, seldom both.
_PAUSE, _UNLIKE = 0.15, 0.17
_COLORLESS = 20.0  # mean saturation of 255 below which an image has no color


class AdaptiveCuts:
    """PySceneDetect's AdaptiveDetector in a fifth of the time. The score of a frame is the mean absolute difference to
    the frame before it over hue, saturation and luma. A shot begins at a frame whose score is at least 15 and
    ``threshold`` (default: 3) times the mean of its four neighbors, ``shortest`` frames after the last one."""

    side = 96
    _least_score, _reach = 15.0, 2

    def __init__(self, shortest: int, threshold: float | None = None) -> None:
        self._shortest, self._threshold = shortest, 3.0 if threshold is None else threshold
        self.lag = max(self._reach, self._shortest) + 1
        self._last_image: NDArray[np.uint8] | None = None
        self._scores: deque[float] = deque(maxlen=2 * self._reach + 1)
        self._last_cut = 0

    def prepare(self, images: RGBImage) -> list[tuple[NDArray[np.uint8], float | None]]:
        """Return each image in HSV, as one row, and its score; None for the first, which lacks the frame before."""
        # All pixels in one row: OpenCV converts the pixels at the end of each row one by one.
        rows = np.asarray(cv2.cvtColor(images.reshape(1, -1, 3), cv2.COLOR_RGB2HSV), np.uint8).reshape(len(images), -1)
        scores: list[float] = []
        if len(rows) > 1:
            sums = cv2.reduce(cv2.absdiff(rows[1:], rows[:-1]), 1, cv2.REDUCE_SUM, dtype=cv2.CV_32S)
            scores = (sums.ravel() / rows.shape[1]).tolist()
        return list(zip(rows, [None, *scores], strict=True))

    def push(self, index: int, prepared: tuple[NDArray[np.uint8], float | None]) -> list[Boundary]:
        (image, score), last = prepared, self._last_image
        self._last_image = image
        if score is None:
            score = 0.0 if last is None else cv2.norm(image, last, cv2.NORM_L1) / image.size
        self._scores.append(score)
        if len(self._scores) < 2 * self._reach + 1:
            return []
        frame, middle = index - self._reach, self._scores[self._reach]
        if middle < self._least_score or frame - self._last_cut < self._shortest:
            return []
        average = sum(score for i, score in enumerate(self._scores) if i != self._reach) / (2.0 * self._reach)
        if average >= 0.00001 and middle / average < self._threshold:  # without motion around it, any score is a cut
            return []
        self._last_cut = frame
        return [Boundary.at(frame)]

    def finish(self, frames: int) -> list[Boundary]:
        return []


def unlikeness(one: tuple[NDArray[np.uint8], Floats], other: tuple[NDArray[np.uint8], Floats]) -> float:
    """Return how unlike two images are in places and colors, from their HSV and descriptors: 0 for the same, about 1
    for unrelated ones. Images without color are compared by a finer histogram, of their brightness."""
    pixels = [image.reshape(1, -1, 3) for image, _ in (one, other)]
    colorless = max(image[..., 1].mean() for image in pixels) < _COLORLESS
    channels, bins, ranges = ([2], [64], [0, 256]) if colorless else ([0, 1, 2], [16, 8, 8], [0, 180, 0, 256, 0, 256])
    histograms = [np.sqrt(cv2.calcHist([image], channels, None, bins, ranges).ravel()) for image in pixels]
    colors = max(0.0, 1 - histograms[0] @ histograms[1] / pixels[0].shape[1])  # 1 less the Bhattacharyya coefficient
    cells = [descriptor[:CELLS] - descriptor[:CELLS].mean() for _, descriptor in (one, other)]
    correlation = cells[0] @ cells[1] / max(np.linalg.norm(cells[0]) * np.linalg.norm(cells[1]), CELLS)
    return float(1 - correlation) * float(np.sqrt(colors) if colorless else colors)


def best_windows(windows: Iterable[Window]) -> list[Window]:
    """Return windows that do not overlap: in order of their scores, each that overlaps no better one."""
    best: list[Window] = []
    for window in sorted(windows, key=lambda window: (-window.score, window.start)):
        if not overlaps_any(window, best):
            best.append(window)
    return best


def overlaps_any(window: Window, others: Iterable[Window]) -> bool:
    return any(window.start < other.end and other.start < window.end for other in others)


class TransitionDetector:
    """Detects the transitions of a video that is fed frame by frame, in order. Hard cuts are the cuts of
    :class:`AdaptiveCuts`, and after a pause two unlike images, except flashes, after which the image returns, and cuts
    inside another transition. A fade is a stretch of one color with a mixture before or after it."""

    side = 48

    def __init__(
        self, frame_rate: float, min_shot: float, threshold: float | None = None, times: Sequence[float] | None = None
    ) -> None:
        self._step = max(1, round(frame_rate / _SAMPLES_PER_SECOND)) if frame_rate <= _CLOCK_RATE else 1
        self._frame_seconds, self._times, self._min_shot = 1 / frame_rate, times, min_shot
        self.lag = self._step * (_WAIT + _CHUNK + _LONGEST_FADE // 2)
        self._adaptive = AdaptiveCuts(1, threshold)
        self._unlike = _UNLIKE if threshold is None else _UNLIKE * threshold / 3.0
        self._newest: tuple[NDArray[np.uint8], Floats] | None = None  # HSV and descriptor of the newest frame
        self._samples: list[Floats] = []  # descriptors of the newest ones
        self._count = 0  # of all samples that were searched
        self._waiting = 0  # samples that wait until there are enough of them to search
        self._windows: list[Window] = []  # candidates: there may be better ones yet
        self._fades: list[Window] = []  # settled windows that begin or end with one color
        self._flat: list[tuple[int, int]] = []  # stretches of one color that have ended, in samples
        self._flat_since: int | None = None
        self._open: list[Boundary] = []  # not yet returned
        self._last = 0  # the last boundary that was returned

    def prepare(self, images: RGBImage) -> list[tuple[Any, Floats]]:
        return list(zip(self._adaptive.prepare(images), frame_descriptors(images), strict=True))

    def push(self, index: int, prepared: tuple[Any, Floats]) -> list[Boundary]:
        (image, score), descriptor = prepared
        if self._newest is not None and self._seconds(index - 1, index) > _PAUSE:
            score = 0.0  # neither a cut nor motion around one
            if unlikeness(self._newest, (image, descriptor)) > self._unlike:
                self._open.append(Boundary.at(index, "cut"))
        self._newest = image, descriptor
        self._open += [Boundary.at(cut.frame, "cut") for cut in self._adaptive.push(index, (image, score))]
        if index % self._step == 0:
            self._samples.append(descriptor)
            self._waiting += 1
        if self._waiting < _CHUNK:
            return []
        self._search()
        self._settle(self._count - _SETTLE)
        return self._report(self._count - _WAIT)

    def finish(self, frames: int) -> list[Boundary]:
        if self._waiting:
            self._search()
        self._settle(frames)
        return self._report(frames)

    def _search(self) -> None:
        """Find windows and stretches of one color in the samples that wait."""
        newest = Samples.of(np.stack(self._samples[-LONGEST - self._waiting :]))
        before = self._count + self._waiting - len(newest.cells)
        for window in windows(newest, self._waiting):
            start, end = window.start + before, window.end + before
            if self._time(end) - self._time(start) <= _LONGEST_SECONDS:
                self._windows.append(replace(window, start=start, end=end))
        for sample, flat in enumerate(newest.flat[-self._waiting :].tolist(), self._count):
            if flat and self._flat_since is None:
                self._flat_since = sample
            elif not flat and self._flat_since is not None:
                self._flat.append((self._flat_since, sample))
                self._flat_since = None
        self._count += self._waiting
        self._waiting = 0
        self._samples = self._samples[-_BUFFERED:]

    def _settle(self, until: int) -> None:
        """Turn the best windows that end before a sample into transitions; drop all others that overlap them."""
        cuts = [self._first_sample(t) for t in self._open if t.kind == "cut"] if self._windows else []
        cuts = [cut for cut in cuts if not self._is_false_cut(cut)]
        in_fades = [cut for cut in cuts if self._is_cut_in_fade(cut)]
        cuts_inside = {"dissolve": cuts, "wipe": cuts, "out": in_fades, "in": in_fades}
        whole = [w for w in self._windows if not any(w.start < cut <= w.end for cut in cuts_inside[w.kind])]
        settled = [window for window in best_windows(whole) if window.end < until]
        self._windows = [window for window in whole if not overlaps_any(window, settled)]
        for window in settled:
            start, end = window.start * self._step + 1, window.end * self._step
            self._drop_cuts(start, end)
            if window.kind in ("in", "out"):
                self._fades.append(window)
            else:
                self._open.append(Boundary(window.kind, start, end))

    def _report(self, until: int) -> list[Boundary]:
        """Return the transitions whose boundary lies before a sample: nothing later can change them."""
        for start, end in [stretch for stretch in self._flat if stretch[1] < until]:
            self._flat.remove((start, end))
            self._end_flat(start, end)
        ready = sorted((t for t in self._open if t.frame < until * self._step), key=lambda t: t.frame)
        self._open = [t for t in self._open if t.frame >= until * self._step]
        transitions = []
        for boundary in ready:
            frame = boundary.frame
            if boundary.kind == "cut" and self._is_false_cut(self._first_sample(boundary)):
                continue
            rounding = self._seconds(frame - 1, frame) / 2
            if frame > self._last and self._seconds(self._last, frame) >= self._min_shot - rounding:
                transitions.append(boundary)
                self._last = frame
        return transitions

    def _end_flat(self, start: int, end: int) -> None:
        """Turn a stretch of one color that has ended into a fade, unless hard cuts or a flash bound it."""
        before = [w for w in self._fades if w.kind == "out" and start <= w.end < end]
        after = [w for w in self._fades if w.kind == "in" and start <= w.start < end]
        self._fades = [w for w in self._fades if w.end >= end]
        first, last = (start - 1) * self._step + 1, end * self._step
        self._drop_cuts(first + self._step, last - self._step)
        if start == 0 or not (before or after):
            return  # the video begins, or there are hard cuts
        if not before and (self._last >= first or self._image_returns(start, after[0].end)):
            return  # the hard cut to it is the boundary; or it is a flash that fades slowly
        first = before[0].start * self._step + 1 if before else first
        last = after[0].end * self._step if after else last
        first = max(first, last - _LONGEST_FADE * self._step)
        self._drop_cuts(first, last)
        self._open.append(Boundary("fade", first, last))

    def _drop_cuts(self, start: int, end: int) -> None:
        self._open = [t for t in self._open if t.kind != "cut" or not start <= t.start <= end]

    def _first_sample(self, boundary: Boundary) -> int:
        return -(-boundary.start // self._step)

    def _time(self, sample: int) -> float:
        return self._seconds(0, sample * self._step)

    def _seconds(self, start: int, end: int) -> float:
        """Return the seconds from one frame to another."""
        if self._times is None:
            return (end - start) * self._frame_seconds
        return self._times[min(end, len(self._times) - 1)] - self._times[start]

    def _is_false_cut(self, sample: int) -> bool:
        """Return whether a cut is false: a jump of dark hues alone, an object that moves fast, or a flash."""
        return self._jump(sample) < _MIN_JUMP or self._is_fast_object(sample) or self._image_returns(sample, sample)

    def _jump(self, sample: int) -> float:
        """Return the root mean squared change of the cells from the sample before; infinite after the last sample."""
        cells = self._cells(sample - 1, sample + 1)
        return float(np.sqrt(((cells[-1] - cells[0]) ** 2).mean())) if len(cells) == 2 else np.inf

    def _is_fast_object(self, sample: int) -> bool:
        """Return whether the change before a sample leaves a part of the image unchanged, and is part of a motion."""
        if self._time(sample) - self._time(sample - 1) > _PAUSE * self._step or self._is_abrupt(sample):
            return False
        last, current = self._cells(sample - 1, sample + 1).reshape(2, ROWS * COLUMNS, 3)
        return bool((((current - last) ** 2).mean(1) > _STILL**2).mean() < _CUT_AREA)

    def _is_abrupt(self, sample: int) -> bool:
        """Return whether the change before a sample is much larger than the changes before and after it."""
        steps = np.diff(self._cells(sample - 2, sample + 2), axis=0)
        if len(steps) < 3:
            return True
        before, change, after = (steps * steps).mean(1)
        return bool(change >= _ABRUPT**2 * max(before, after))

    def _is_cut_in_fade(self, sample: int) -> bool:
        """Return whether a cut in a fade is no step of the fade itself, nor to or from one color."""
        beside = self._descriptors(sample - 1, sample + 1)
        return self._is_abrupt(sample) and not any(descriptor[-1] < FLAT for descriptor in beside)

    def _image_returns(self, start: int, end: int) -> bool:
        """Return whether the image before sample ``start`` is there again soon from sample ``end`` on."""
        before, after = self._cells(start - _FLASH, start), self._cells(end, end + _FLASH)
        if not len(before) or not len(after):
            return False
        change = ((before[:, None] - after) ** 2).mean(2)
        # Of the sample k before the start and the sample m from the end on, k + m at most _FLASH.
        soon = np.arange(len(before), 0, -1)[:, None] + np.arange(len(after)) <= _FLASH
        until_start = [self._time(start) - self._time(sample) for sample in range(start - len(before), start)]
        from_end = [self._time(sample) - self._time(end) for sample in range(end, end + len(after))]
        soon &= np.add.outer(until_start, from_end) <= _FLASH_SECONDS
        return bool(np.sqrt(change[soon].min(initial=np.inf)) < _SAME_IMAGE * self._jump(start))

    def _cells(self, start: int, end: int) -> Floats:
        """Return the cells of the samples ``[start, end)``, as far as they are kept, (n, D)."""
        return np.array([descriptor[:CELLS] for descriptor in self._descriptors(start, end)])

    def _descriptors(self, start: int, end: int) -> list[Floats]:
        first = self._count - len(self._samples)
        return self._samples[max(0, start - first) : max(0, end - first)]
