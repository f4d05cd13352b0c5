"""Detection of cuts, dissolves, fades and wipes, robust to camera motion, moving objects, lighting changes and flashes.

Every frame becomes 8 x 16 mean colours ("cells") and the energy of its gradients in 4 x 4 blocks. A dissolve from A to
B is ``(1 - a) A + a B`` with a weight ``a`` that rises from 0 to 1. Two things follow, and motion has neither:

- the cells go straight from those of A to those of B, at an even pace;
- the gradients of A and B are uncorrelated, so that their energies add: the energy in between is
  ``(1 - a)^2 E_A + a^2 E_B``, about half in the middle. Under motion, or a change of lighting, it stays
  ``((1 - a) sqrt(E_A) + a sqrt(E_B))^2``. The correlation ``rho`` of the layers interpolates between the two:
  ``E = (1 - a)^2 E_A + a^2 E_B + 2 a (1 - a) rho sqrt(E_A E_B)``, and is fitted by least squares.

Alattar (1993) and Lienhart (1999) use the second (the parabola of the variance). Here the weight comes from the
colours, and the energy is taken per block. A fade is a mixture with an image of one colour. In a wipe each cell changes
from A to B at its own moment, which is linear in its place.

Limits were chosen on the tuning half of the videos of ``benchmarks/shots.py``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.video.adaptive import AdaptiveCuts
from pipelines.video.frames import RGBImage
from pipelines.video.shots import Boundary

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]

_ROWS, _COLUMNS, _BLOCKS = 8, 16, 4
_SAMPLES_PER_SECOND = 30.0  # of videos with more frames per second, every second frame is sampled, every third, ...
_SHORTEST, _LONGEST = 5, 66  # samples from the last one of A to the first one of B
_LENGTHS = 24  # number of lengths between these that are tried
_LONGEST_FADE = 96  # samples from the first one that fades out to the last one that fades in
_CHUNK = 64  # samples that are searched together
_SETTLE = 16  # samples without a better overlapping window after which a window is final
_WAIT = _LONGEST + _SETTLE  # samples after which a result is final

# A flash: the image returns after at most this number of samples; it is the same if it differs by less than this share
# of the jump.
_FLASH, _SAME_IMAGE = 9, 0.45
_BUFFERED = _WAIT + 2 * (_CHUNK + _FLASH)  # samples
_MIN_JUMP = 8.0  # root mean squared change of the cells at a hard cut, at least: in the dark, hues alone may jump
# At a cut, at least the first share of the cells changes by more than _STILL, or the cells as a whole change at least
# _ABRUPT times as much as before and after it; otherwise an object moves fast.
_CUT_AREA, _STILL, _ABRUPT = 0.8, 8.0, 3.5

# A window of samples is a mixture of its ends if the squares of these deviations, each divided by its scale, add up to
# less than the limit: a dissolve between moving shots deviates in some, motion and lighting changes a little in all.
_MIXTURE_LIMIT = 1.6
_PACE = 0.13  # of the weight from a linear rise, at most
_OFF_LINE = 0.11  # squared distance of the samples from the line through the ends, as a share of that of the ends
_CORRELATION = 0.65  # of the cells of the ends, at most: 1 for one image in two lights
_RHO, _RHO_OF_BLOCKS = 0.43, 0.68  # correlation of the gradients of the two layers; its median over the blocks
_NEGATIVE_RHO = 0.6  # the same for negative correlation, which no two layers have
# and the ends are different images:
_MIN_DIFFERENCE = 35.0  # root mean squared difference of their cells
_AREA, _CHANGED = 0.8, 15.0  # share of the blocks in which it is at least this large
# The spread of an image of one colour is below the first, that of an image with content above the second.
_FLAT, _CONTRAST = 2.5, 6.0
# In a wipe, each cell of a sample is that of the start or of the end, up to the first share of the squared distance of
# the ends; a moving line explains at least the second share of the variance of the moments at which cells change.
_PIECED, _SWEEP = 0.05, 0.75


# --- descriptors of frames ------------------------------------------------------------------------------------------


# The descriptor of a frame is one row of numbers: mean colours less 128, (8 * 16 * 3,) whole numbers, so that inner
# products are exact in any order; mean squared gradient in each block, (16,); and the spread, the standard deviation of
# the cells and their gradients together, near 0 for an image of one colour. Cells alone would miss titles on black.
_CELLS = _ROWS * _COLUMNS * 3
_ENERGY = slice(_CELLS, _CELLS + _BLOCKS * _BLOCKS)
_SPREAD = -1


def frame_descriptors(images: RGBImage) -> Floats:
    """Descriptors (N, 401) of images (N, H, W, 3) uint8 RGB; that of an image does not depend on the others."""
    N, height, width, _ = images.shape
    if height < _ROWS or width < _COLUMNS:
        images = images.repeat(-(-_ROWS // height), 1).repeat(-(-_COLUMNS // width), 2)
        height, width = images.shape[1:3]
    sums = _overlaps(height, _ROWS) @ images.reshape(N, height, -1).astype(np.float32)
    sums = sums.reshape(N * _ROWS, -1) @ _of_each_channel(width)
    cells = np.rint(sums / (height * width)).reshape(N, -1) - 128
    mean = cells @ _channels()  # in whole numbers, so exact in any order
    variance = np.einsum("nd,nd->n", cells, cells) / cells.shape[1] - (mean * mean).mean(1)
    # All images below one another; the differences between two of them are left out in the end.
    green = cv2.extractChannel(images.reshape(N * height, width, 3), 1)
    squares = np.zeros((N * height, width), np.float32)
    cv2.accumulateSquare(cv2.absdiff(green[:, 1:], green[:, :-1]), squares[:, :-1])
    cv2.accumulateSquare(cv2.absdiff(green[1:], green[:-1]), squares[:-1])
    squares = squares.reshape(N, height, width)[:, :-1, :-1]
    rows, columns = (_overlaps(size, _BLOCKS) / size for size in squares.shape[1:])
    energy: Floats = np.asarray(rows @ (squares @ columns.T), np.float32).reshape(N, -1)
    return np.hstack([cells, energy, np.sqrt(variance + energy.mean(1))[:, None]])


@cache
def _channels() -> Floats:
    """Cells to the mean of each channel, (8 * 16 * 3, 3)."""
    return np.tile(np.eye(3, dtype=np.float32) / np.float32(_ROWS * _COLUMNS), (_ROWS * _COLUMNS, 1))


@cache
def _overlaps(size: int, parts: int) -> Floats:
    """How much of each of ``size`` pixels is in each of equal parts, as a multiple of 1 / parts: (parts, size), whole
    numbers, whose sum over the pixels is ``size``."""
    edges = np.arange(parts + 1)[:, None] * size
    return np.asarray(np.diff(np.clip(edges - np.arange(size) * parts, 0, parts), axis=0), np.float32)


@cache
def _of_each_channel(width: int) -> Floats:
    """Pixels of a row to the sums of each channel over the columns of cells, (width * 3, _COLUMNS * 3)."""
    return np.kron(_overlaps(width, _COLUMNS).T, np.eye(3, dtype=np.float32))


# --- mixtures -------------------------------------------------------------------------------------------------------


class Window(NamedTuple):
    """Samples that go over from one image to another: the last one of the one, and the first one of the other.

    ``kind`` is ``dissolve``, ``wipe``, ``out`` or ``in``: the last two go to and come from an image of one colour.
    """

    kind: str
    start: int
    end: int
    score: float


def windows(cells: Floats, energy: Floats, spread: Floats, newest: int) -> list[Window]:
    """Candidates for a dissolve, a wipe or half a fade; they may overlap.

    Args:
        cells: (M, D) of M samples that follow each other.
        energy: (M, 16).
        spread: (M,).
        newest: only windows that end within this number of last samples.
    """
    products = cells @ cells.T
    square, flat = np.diagonal(products), spread < _FLAT
    start, end, between, pace = _lengths(len(cells), newest)
    faded = flat[start] | flat[end]
    apart = square[start] + square[end] - 2 * products[start, end]
    keep = apart >= np.where(faded, _CONTRAST**2, _MIN_DIFFERENCE**2) * cells.shape[1]
    kept = np.flatnonzero(keep & (np.maximum(spread[start], spread[end]) > _CONTRAST))
    middle, off = weights(products, start[kept], end[kept], between[kept, 3:4])  # this test alone rejects most
    kept = kept[(np.abs(middle - pace[kept, 3:4]) < _PACE)[:, 0] & (off < 3 * _OFF_LINE)[:, 0]]
    if not len(kept):
        return []
    alike = np.where(faded[kept], 0, likeness(cells, products, start[kept], end[kept]))
    kept, alike = kept[alike < _CORRELATION], alike[alike < _CORRELATION]
    start, end, between, pace, faded = start[kept], end[kept], between[kept], pace[kept], faded[kept]
    weight, off = weights(products, start, end, between)
    uneven = np.abs(weight - pace).max(1) / _PACE
    mixture = uneven**2 + (off.mean(1) / _OFF_LINE) ** 2 + (np.maximum(alike, 0) / _CORRELATION) ** 2
    wipe = np.maximum(uneven, np.abs(off - weight * (1 - weight)).mean(1) / _PIECED)
    wipe[faded] = np.inf
    keep = np.flatnonzero((mixture < _MIXTURE_LIMIT) & ~faded)
    mixture[keep] += (layers(energy, start[keep], end[keep], between[keep], weight[keep]) ** 2).sum(1)
    mixture = np.sqrt(mixture / _MIXTURE_LIMIT)
    keep = np.flatnonzero(wipe < 1)
    wipe[keep] = np.maximum(wipe[keep], sweep(cells, start[keep], end[keep], between[keep]))
    cost = np.minimum(mixture, wipe)
    keep = np.flatnonzero(cost < 1)
    change = cells[end[keep]] - cells[start[keep]]
    change = change.reshape(-1, _BLOCKS, _ROWS // _BLOCKS, _BLOCKS, _COLUMNS // _BLOCKS, 3)
    area = ((change * change).mean((2, 4, 5)) > _CHANGED**2).mean((1, 2))
    found = []
    for i in keep[(area >= _AREA) | faded[keep]].tolist():
        s, e = int(start[i]), int(end[i])
        kind = "in" if flat[s] else "out" if flat[e] else "dissolve" if mixture[i] < wipe[i] else "wipe"
        score = (e - s) * (1 - float(cost[i]) ** 2)
        found.append(Window(kind, s, e, 2 * score if faded[i] else score))  # preferred to a dissolve inside the fade
    return found


def likeness(cells: Floats, products: Floats, start: Indices, end: Indices) -> Floats:
    """Correlation of the cells of two samples, (K,)."""
    mean = cells.mean(1)
    deviation = np.sqrt(np.maximum(np.diagonal(products) / cells.shape[1] - mean * mean, 1))
    together = products[start, end] / cells.shape[1] - mean[start] * mean[end]
    return np.asarray(together / (deviation[start] * deviation[end]))


def weights(products: Floats, start: Indices, end: Indices, between: Indices) -> tuple[Floats, Floats]:
    """How samples lie to the line through two others.

    Args:
        products: (M, M), inner products of all samples.
        start, end: (K,) samples, each pair different.
        between: (K, n) samples.

    Returns:
        weight: (K, n), where on the line each is nearest to, 0 at the start and 1 at the end.
        off: (K, n), its squared distance from there, as a share of the squared distance of start and end.
    """
    square = np.diagonal(products)
    s, e = start[:, None], end[:, None]
    apart = square[s] + square[e] - 2 * products[s, e]
    from_start = products[between, s]
    weight = (products[between, e] - from_start - products[s, e] + square[s]) / apart
    return weight, (square[between] + square[s] - 2 * from_start) / apart - weight * weight


def layers(energy: Floats, start: Indices, end: Indices, between: Indices, weight: Floats) -> Floats:
    """Deviation of each window's gradients from those of two uncorrelated layers, over all blocks and in the median
    block, (K, 2)."""
    energy = energy + 1  # noise, where there are no gradients
    rho = correlation(energy.mean(1, keepdims=True), start, end, between, weight)[:, 0]
    of_blocks = np.median(correlation(energy, start, end, between, weight), 1)
    return np.stack([np.maximum(rho / _RHO, -rho / _NEGATIVE_RHO), np.maximum(of_blocks / _RHO_OF_BLOCKS, 0)], 1)


def correlation(energy: Floats, start: Indices, end: Indices, between: Indices, weight: Floats) -> Floats:
    """rho of each window in each block, (K, blocks), by least squares over the samples between its ends.

    Args:
        energy: (M, blocks) of all samples, none of it 0.
        start, end: (K,) samples.
        between, weight: (K, n) samples, and their share of the end.
    """
    a = np.clip(weight, 0, 1)[:, :, None]
    before, after = energy[start][:, None], energy[end][:, None]
    alone = (1 - a) ** 2 * before + a * a * after
    together = 2 * a * (1 - a) * np.sqrt(before * after)
    fit = ((energy[between] - alone) * together).sum(1) / np.maximum((together * together).sum(1), 1e-6)
    return np.asarray(fit, np.float32)


def sweep(cells: Floats, start: Indices, end: Indices, between: Indices) -> Floats:
    """Deviation of each window from a wipe whose line moves evenly over the image, (K,)."""
    colours = cells.reshape(len(cells), -1, 3)
    samples = colours[between]
    to_start, to_end = (_distance(samples, colours[of][:, None]) for of in (start, end))
    apart = _distance(colours[end], colours[start]).sum(1)
    odd = np.minimum(to_start, to_end).sum(2).mean(1) / apart
    moment = (to_start <= to_end).sum(1)  # of each cell: in how many of the samples it has not changed yet
    moment = moment - moment.mean(1, keepdims=True)
    line = ((moment @ _places()) ** 2).sum(1) / np.maximum((moment * moment).sum(1), 1e-6)
    return np.asarray(np.maximum(odd / _PIECED, (1 - line) / (1 - _SWEEP)))


def _distance(one: Floats, other: Floats) -> Floats:
    """Squared distance of colours, (..., 3) to (...); a sum over so short an axis takes three times as long."""
    change = one - other
    change *= change
    return np.asarray(change[..., 0] + change[..., 1] + change[..., 2])


@cache
def _places() -> NDArray[np.float64]:
    """Unit vectors that rise over the columns and over the rows of the cells, (cells, 2)."""
    places = np.stack([(g - g.mean()).ravel() for g in np.meshgrid(np.arange(_COLUMNS), np.arange(_ROWS))], 1)
    return np.asarray(places / np.linalg.norm(places, axis=0))


@cache
def _lengths(count: int, newest: int) -> tuple[Indices, Indices, Indices, Floats]:
    """Starts (K,), ends (K,) and seven samples between (K, 7) of the windows; where these lie, 0 to 1 (K, 7)."""
    lengths = np.unique(np.geomspace(_SHORTEST, _LONGEST, _LENGTHS).astype(int))
    end, length = (grid.ravel() for grid in np.meshgrid(np.arange(count - newest, count), lengths))
    end, length = end[end >= length], length[end >= length]
    offset = np.rint(length[:, None] * np.arange(1, 8) / 8)
    between = (end - length)[:, None] + offset.astype(np.int64)
    return end - length, end, between, (offset / length[:, None]).astype(np.float32)


# --- the detector ---------------------------------------------------------------------------------------------------


class TransitionDetector:
    """Detects the transitions of a video that is fed frame by frame, and returns them in order.

    Hard cuts are those of :class:`AdaptiveCuts`, except flashes, after which the image returns, and cuts inside another
    transition. A fade is a stretch of one colour with a mixture before or after it.

    Args:
        frame_rate: frames per second.
        shortest: least frames of a shot.
        threshold: of the hard cuts, as that of :class:`AdaptiveCuts`.
    """

    side = 48

    def __init__(self, frame_rate: float, shortest: int, threshold: float | None = None) -> None:
        self._step = max(1, round(frame_rate / _SAMPLES_PER_SECOND))
        self._shortest_shot = shortest
        self.lag = self._step * (_WAIT + _CHUNK + _LONGEST_FADE // 2)
        self._adaptive = AdaptiveCuts(1, threshold)
        self._samples: list[Floats] = []  # the newest ones
        self._count = 0  # of all samples that were searched
        self._waiting = 0  # samples that wait until there are enough of them to search
        self._windows: list[Window] = []  # there may be better ones yet
        self._fades: list[Window] = []  # mixtures with one colour
        self._flat: list[tuple[int, int]] = []  # stretches of one colour that have ended, in samples
        self._flat_since: int | None = None
        self._open: list[Boundary] = []  # not yet returned
        self._last = 0  # the last boundary that was returned

    def prepare(self, images: RGBImage) -> list[tuple[Any, Floats]]:
        return list(zip(self._adaptive.prepare(images), frame_descriptors(images), strict=True))

    def push(self, index: int, prepared: tuple[Any, Floats]) -> list[Boundary]:
        for_cuts, descriptor = prepared
        self._open += [Boundary("cut", cut, cut) for cut in self._adaptive.push(index, for_cuts)]
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
        """Look for mixtures and stretches of one colour in the new samples."""
        newest = self._samples[-_LONGEST - self._waiting :]
        before = self._count + self._waiting - len(newest)
        table = np.concatenate(newest).reshape(len(newest), -1)
        for window in windows(table[:, :_CELLS], table[:, _ENERGY], table[:, _SPREAD], self._waiting):
            self._windows.append(window._replace(start=window.start + before, end=window.end + before))
        for sample, spread in enumerate(table[-self._waiting :, _SPREAD].tolist(), self._count):
            if spread < _FLAT:
                self._flat_since = sample if self._flat_since is None else self._flat_since
            elif self._flat_since is not None:
                self._flat.append((self._flat_since, sample))
                self._flat_since = None
        self._count += self._waiting
        self._waiting = 0
        self._samples = self._samples[-_BUFFERED:]

    def _settle(self, until: int) -> None:
        """Keep the best of overlapping windows, where they end before a sample. None has a hard cut inside: after one,
        a change of lighting or a pan may look like the rest of a dissolve."""
        if not self._windows:
            return
        cuts = [sample for t in self._open if t.kind == "cut" and not self._is_false_cut(sample := self._sample(t))]
        self._windows = [
            w for w in self._windows if w.kind in ("in", "out") or not any(w.start < cut <= w.end for cut in cuts)
        ]
        best: list[Window] = []
        for window in sorted(self._windows, key=lambda window: (-window.score, window.start)):
            if not any(_overlap(window, other) for other in best):
                best.append(window)
        settled = [window for window in best if window.end < until]
        self._windows = [w for w in self._windows if not any(_overlap(w, other) for other in settled)]
        for window in settled:
            start, end = window.start * self._step + 1, window.end * self._step
            self._drop_cuts(start, end)
            if window.kind in ("in", "out"):
                self._fades.append(window)
            else:
                self._open.append(Boundary(window.kind, start, end))

    def _report(self, until: int) -> list[Boundary]:
        """The transitions whose boundary lies before a sample, with which all that could change them has been seen."""
        for start, end in [run for run in self._flat if run[1] < until]:
            self._flat.remove((start, end))
            self._end_flat(start, end)
        ready = sorted((t for t in self._open if t.frame < until * self._step), key=lambda t: t.frame)
        self._open = [t for t in self._open if t.frame >= until * self._step]
        given = []
        for boundary in ready:
            if boundary.kind == "cut" and self._is_false_cut(self._sample(boundary)):
                continue
            if boundary.frame - self._last >= self._shortest_shot:
                given.append(boundary)
                self._last = boundary.frame
        return given

    def _end_flat(self, start: int, end: int) -> None:
        """Turn a stretch of one colour that has ended into a fade, unless hard cuts or a flash bound it."""
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

    def _sample(self, boundary: Boundary) -> int:
        """The first sample from a boundary on."""
        return -(-boundary.start // self._step)

    def _is_false_cut(self, sample: int) -> bool:
        """Whether a cut before a sample is false: a jump of dark hues alone, an object that moves fast, or a flash."""
        return self._jump(sample) < _MIN_JUMP or self._is_fast_object(sample) or self._image_returns(sample, sample)

    def _is_fast_object(self, sample: int) -> bool:
        """Whether the change before a sample leaves a part of the image unchanged, and is part of a motion."""
        steps = np.diff(self._cells(sample - 2, sample + 2), axis=0).reshape(-1, _ROWS * _COLUMNS, 3)
        if len(steps) < 3:
            return False
        change = (steps * steps).mean(2)
        before, here, after = change.mean(1)
        return bool((change[1] > _STILL**2).mean() < _CUT_AREA and here < _ABRUPT**2 * max(before, after))

    def _jump(self, sample: int) -> float:
        """Root mean squared change of the cells from the sample before."""
        last, this = self._cells(sample - 1, sample + 1)
        return float(np.sqrt(((this - last) ** 2).mean()))

    def _image_returns(self, start: int, end: int) -> bool:
        """Whether the image before sample ``start`` is there again soon from sample ``end`` on, as after a flash."""
        before, after = self._cells(start - _FLASH, start), self._cells(end, end + _FLASH)
        if not len(before) or not len(after):
            return False
        change = ((before[:, None] - after) ** 2).mean(2)
        # Of the sample k before the start and the sample m from the end on, k + m at most _FLASH.
        soon = np.arange(len(before), 0, -1)[:, None] + np.arange(len(after)) <= _FLASH
        return bool(np.sqrt(change[soon].min()) < _SAME_IMAGE * self._jump(start))

    def _cells(self, start: int, end: int) -> Floats:
        """The cells of those of the samples ``[start, end)`` that are kept, (n, D)."""
        first = self._count - len(self._samples)
        kept = self._samples[max(0, start - first) : max(0, end - first)]
        return np.array([descriptor[:_CELLS] for descriptor in kept])

    def _drop_cuts(self, start: int, end: int) -> None:
        self._open = [t for t in self._open if t.kind != "cut" or not start <= t.start <= end]


def _overlap(one: Window, other: Window) -> bool:
    return one.start < other.end and other.start < one.end
