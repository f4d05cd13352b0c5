"""How shots end: hard cuts, dissolves, fades and wipes, told from camera motion, moving objects, lighting and flashes.

Every frame becomes 8 x 16 mean colours ("cells") and the energy of its gradients in 4 x 4 blocks. A dissolve from A to
B is ``(1 - a) A + a B`` with a weight ``a`` that rises from 0 to 1. Two things follow, and motion has neither:

- the cells go straight from those of A to those of B, at an even pace;
- the gradients of A and B have nothing to do with each other, so that their energies add: the energy in between is
  ``(1 - a)^2 E_A + a^2 E_B``, about half in the middle. Under motion, or another light, it stays
  ``((1 - a) sqrt(E_A) + a sqrt(E_B))^2``. The correlation ``rho`` of the layers interpolates between the two:
  ``E = (1 - a)^2 E_A + a^2 E_B + 2 a (1 - a) rho sqrt(E_A E_B)``, and least squares give it, whatever the layers do.

The second is what Alattar (1993) and Lienhart (1999) use of a dissolve (the parabola of the variance), with the weight
taken from the colours, and per block. A fade is a mixture with an image of one colour. In a wipe each cell changes from
A to B at its own moment, which is linear in its place.

Limits were chosen on the tuning half of the films of ``benchmarks/shots.py``.
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
_SAMPLES_PER_SECOND = 30.0  # of films with more frames a second, every second frame is sampled, every third, ...
_SHORTEST, _LONGEST = 5, 66  # samples from the last one of A to the first one of B
_LENGTHS = 24  # so many lengths between are tried
_LONGEST_FADE = 96  # samples from the first one that fades out to the last one that fades in
_CHUNK = 64  # samples that are searched together
_SETTLE = 16  # a window stands when no better one was found for so many samples
_WAIT = _LONGEST + _SETTLE  # nothing changes what was found so many samples ago

# A flash: an image that returns after at most so many samples; it is the same when it differs by less than this share
# of the jump.
_FLASH, _SAME = 9, 0.45
_KEPT = _WAIT + 2 * (_CHUNK + _FLASH)  # samples
_JUMP = 8.0  # root mean squared change of the cells at a hard cut, at least: in the dark, hues alone may jump
# Where an object moves fast, less than the first share of the cells changes by more than _STILL, and the cells as a
# whole change less than _ABRUPT times as much as before or after it.
_PART, _STILL, _ABRUPT = 0.8, 8.0, 3.5

# A window of samples is a mixture of its ends as long as the squares of these, each divided by its scale, sum up to
# less than _MOST: a dissolve between moving shots is off in some, motion and light are somewhat off in all.
_MOST = 1.6
_PACE = 0.13  # how far the weight is from an even rise, at most
_OFF = 0.11  # squared distance of the samples from the line through the ends, as a share of that of the ends
_ALIKE = 0.65  # correlation of the cells of the ends: one image in two lights has 1; must be smaller than this
_RHO, _RHO_OF_BLOCKS = 0.43, 0.68  # correlation of the gradients of the two layers; its median over the blocks
_OPPOSED = 0.6  # the same below 0, where no layers are
# and the ends are different images:
_APART = 35.0  # root mean squared difference of their cells
_AREA, _CHANGED = 0.8, 15.0  # share of the blocks in which it is at least this large
# An image of one colour has a spread below the first; one of more colours, above the second.
_FLAT, _CONTRAST = 2.5, 6.0
# In a wipe, the samples are made of cells of the start and cells of the end but for the first share of the squared
# distance of the ends; a moving line explains the second share of the variance of the moments at which cells change.
_PIECED, _SWEEP = 0.05, 0.75


# --- what is kept of a frame ----------------------------------------------------------------------------------------


# What the search for transitions needs of a frame, its "look", is one row of numbers: mean colours less 128, (8 * 16 *
# 3,) whole numbers, so that inner products are exact in any order; mean squared gradient in each block, (16,); and how
# far the image is from one colour, the standard deviation of the cells and their gradients together: credits on black
# are not black.
_CELLS = _ROWS * _COLUMNS * 3
_ENERGY = slice(_CELLS, _CELLS + _BLOCKS * _BLOCKS)
_SPREAD = -1


def looks(images: RGBImage) -> Floats:
    """(N, H, W, 3) uint8 RGB to the look of each, (N, 401); the same for an image whatever stands beside it."""
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
    """What looks like a dissolve, a wipe or half a fade; better and worse ones overlap.

    Args:
        cells: (M, D) of M samples that follow each other.
        energy: (M, 16).
        spread: (M,).
        newest: only windows that end within so many of the last samples.
    """
    products = cells @ cells.T
    square, flat = np.diagonal(products), spread < _FLAT
    start, end, between, pace = _lengths(len(cells), newest)
    faded = flat[start] | flat[end]
    apart = square[start] + square[end] - 2 * products[start, end]
    keep = apart >= np.where(faded, _CONTRAST**2, _APART**2) * cells.shape[1]
    kept = np.flatnonzero(keep & (np.maximum(spread[start], spread[end]) > _CONTRAST))
    middle, off = weights(products, start[kept], end[kept], between[kept, 3:4])  # alone, it turns most away
    kept = kept[(np.abs(middle - pace[kept, 3:4]) < _PACE)[:, 0] & (off < 3 * _OFF)[:, 0]]
    if not len(kept):
        return []
    alike = np.where(faded[kept], 0, likeness(cells, products, start[kept], end[kept]))
    kept, alike = kept[alike < _ALIKE], alike[alike < _ALIKE]
    start, end, between, pace, faded = start[kept], end[kept], between[kept], pace[kept], faded[kept]
    weight, off = weights(products, start, end, between)
    uneven = np.abs(weight - pace).max(1) / _PACE
    mixture = uneven**2 + (off.mean(1) / _OFF) ** 2 + (np.maximum(alike, 0) / _ALIKE) ** 2
    wipe = np.maximum(uneven, np.abs(off - weight * (1 - weight)).mean(1) / _PIECED)
    wipe[faded] = np.inf
    keep = np.flatnonzero((mixture < _MOST) & ~faded)
    mixture[keep] += (layers(energy, start[keep], end[keep], between[keep], weight[keep]) ** 2).sum(1)
    mixture = np.sqrt(mixture / _MOST)
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
        found.append(Window(kind, s, e, 2 * score if faded[i] else score))  # not the dissolve that is inside a fade
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
    """How far each window's gradients are from those of two layers that have nothing to do with each other: all, and
    those of the median block, (K, 2)."""
    energy = energy + 1  # noise, where there are no gradients
    rho = correlation(energy.mean(1, keepdims=True), start, end, between, weight)[:, 0]
    of_blocks = np.median(correlation(energy, start, end, between, weight), 1)
    return np.stack([np.maximum(rho / _RHO, -rho / _OPPOSED), np.maximum(of_blocks / _RHO_OF_BLOCKS, 0)], 1)


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
    """How far each window is from a line that moves evenly over the image and leaves the other one behind, (K,)."""
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
    """Finds the transitions of a film that is fed frame by frame, and gives them out in order.

    Hard cuts are those of :class:`AdaptiveCuts`, but for flashes, after which the image returns, and but for what lies
    inside another transition. A fade is a stretch of one colour with a mixture before or behind it.

    Args:
        frame_rate: frames a second.
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
        self._open: list[Boundary] = []  # not yet given out
        self._last = 0  # the last boundary given out

    def prepare(self, images: RGBImage) -> list[tuple[Any, Floats]]:
        return list(zip(self._adaptive.prepare(images), looks(images), strict=True))

    def push(self, index: int, prepared: tuple[Any, Floats]) -> list[Boundary]:
        for_cuts, look = prepared
        self._open += [Boundary("cut", cut, cut) for cut in self._adaptive.push(index, for_cuts)]
        if index % self._step == 0:
            self._samples.append(look)
            self._waiting += 1
        if self._waiting < _CHUNK:
            return []
        self._search()
        self._settle(self._count - _SETTLE)
        return self._give(self._count - _WAIT)

    def finish(self, frames: int) -> list[Boundary]:
        if self._waiting:
            self._search()
        self._settle(frames)
        return self._give(frames)

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
        self._samples = self._samples[-_KEPT:]

    def _settle(self, until: int) -> None:
        """Take the best of the windows that overlap each other, where they end before a sample. None has a hard cut
        inside: behind it, a light that changes or a pan may look like the rest of a dissolve."""
        if not self._windows:
            return
        cuts = [sample for t in self._open if t.kind == "cut" and not self._stays(sample := self._sample(t))]
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

    def _give(self, until: int) -> list[Boundary]:
        """The transitions whose boundary lies before a sample, with which all that could change them has been seen."""
        for start, end in [run for run in self._flat if run[1] < until]:
            self._flat.remove((start, end))
            self._end_flat(start, end)
        ready = sorted((t for t in self._open if t.frame < until * self._step), key=lambda t: t.frame)
        self._open = [t for t in self._open if t.frame >= until * self._step]
        given = []
        for boundary in ready:
            if boundary.kind == "cut" and self._stays(self._sample(boundary)):
                continue
            if boundary.frame - self._last >= self._shortest_shot:
                given.append(boundary)
                self._last = boundary.frame
        return given

    def _end_flat(self, start: int, end: int) -> None:
        """A stretch of one colour is over: what it was part of."""
        before = [w for w in self._fades if w.kind == "out" and start <= w.end < end]
        after = [w for w in self._fades if w.kind == "in" and start <= w.start < end]
        self._fades = [w for w in self._fades if w.end >= end]
        first, last = (start - 1) * self._step + 1, end * self._step
        self._drop_cuts(first + self._step, last - self._step)
        if start == 0 or not (before or after):
            return  # the film begins, or there are hard cuts
        if not before and (self._last >= first or self._returns(start, after[0].end)):
            return  # the hard cut to it is the boundary; or it is a flash that goes out slowly
        first = before[0].start * self._step + 1 if before else first
        last = after[0].end * self._step if after else last
        first = max(first, last - _LONGEST_FADE * self._step)
        self._drop_cuts(first, last)
        self._open.append(Boundary("fade", first, last))

    def _sample(self, boundary: Boundary) -> int:
        """The first sample from a boundary on."""
        return -(-boundary.start // self._step)

    def _stays(self, sample: int) -> bool:
        """Whether a cut before a sample is none: a jump of dark hues alone, an object that moves fast, or a flash."""
        return self._jump(sample) < _JUMP or self._moves(sample) or self._returns(sample, sample)

    def _moves(self, sample: int) -> bool:
        """Whether the change before a sample leaves a part of the image as it was, and goes on from or to another."""
        steps = np.diff(self._cells(sample - 2, sample + 2), axis=0).reshape(-1, _ROWS * _COLUMNS, 3)
        if len(steps) < 3:
            return False
        change = (steps * steps).mean(2)
        before, here, after = change.mean(1)
        return bool((change[1] > _STILL**2).mean() < _PART and here < _ABRUPT**2 * max(before, after))

    def _jump(self, sample: int) -> float:
        """Root mean squared change of the cells from the sample before."""
        last, this = self._cells(sample - 1, sample + 1)
        return float(np.sqrt(((this - last) ** 2).mean()))

    def _returns(self, start: int, end: int) -> bool:
        """Whether the image before sample ``start`` is there again soon from sample ``end`` on, as after a flash."""
        before, after = self._cells(start - _FLASH, start), self._cells(end, end + _FLASH)
        if not len(before) or not len(after):
            return False
        change = ((before[:, None] - after) ** 2).mean(2)
        # Of the sample k before the start and the sample m from the end on, k + m at most _FLASH.
        soon = np.arange(len(before), 0, -1)[:, None] + np.arange(len(after)) <= _FLASH
        return bool(np.sqrt(change[soon].min()) < _SAME * self._jump(start))

    def _cells(self, start: int, end: int) -> Floats:
        """The cells of those of the samples ``[start, end)`` that are kept, (n, D)."""
        first = self._count - len(self._samples)
        looks = self._samples[max(0, start - first) : max(0, end - first)]
        return np.array([look[:_CELLS] for look in looks])

    def _drop_cuts(self, start: int, end: int) -> None:
        self._open = [t for t in self._open if t.kind != "cut" or not start <= t.start <= end]


def _overlap(one: Window, other: Window) -> bool:
    return one.start < other.end and other.start < one.end
