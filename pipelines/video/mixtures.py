"""Search for gradual transitions: stretches of a video in which one image changes evenly to another.

Every frame becomes 8 x 16 mean colors ("cells") and the energy of its gradients in 4 x 4 blocks. A dissolve from A to
B is ``(1 - a) A + a B`` with a weight ``a`` that rises from 0 to 1. Two things follow, and motion has neither:

- the cells go straight from A's cells to B's, at an even pace;
- the gradients of A and B are uncorrelated, so that their energies add: the energy in between is
  ``(1 - a)^2 E_A + a^2 E_B``, about half in the middle. Under motion, or a change of lighting, it stays
  ``((1 - a) sqrt(E_A) + a sqrt(E_B))^2``. The correlation ``rho`` of the layers interpolates between the two:
  ``E = (1 - a)^2 E_A + a^2 E_B + 2 a (1 - a) rho sqrt(E_A E_B)``, and is fitted by least squares.

Alattar (1993) and Lienhart (1999) use the second (the parabola of the variance). Here the weight comes from the
colors, and the energy is taken per block. A fade is a mixture with an image of one color. In a wipe each cell changes
from A to B at its own moment, which is linear in its place.

Limits were chosen on the tuning half of the videos of ``benchmarks/shots.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.video.images import RGBImage

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

LONGEST = 66
"""Samples from the last one of A to the first one of B, at most."""
ROWS, COLUMNS = 8, 16
CELLS = ROWS * COLUMNS * 3
"""Numbers in the cells of a frame, which come first in its descriptor."""

_SHORTEST = 5  # samples, as in LONGEST
_LENGTHS = 24  # number of lengths between these that are tried
_BLOCKS = 4

# A window of samples is a mixture of its ends if the squares of these deviations, each divided by its scale, add up to
# less than the limit: a dissolve between moving shots deviates in some, motion and lighting changes a little in all.
_MIXTURE_LIMIT = 1.6
_PACE = 0.13  # of the weight from a linear rise, at most
_OFF_LINE = 0.11  # squared distance of the samples from the line through the ends, relative to the ends' distance
_CORRELATION = 0.65  # of the cells of the ends, at most: 1 for one image in two lights
_RHO, _RHO_OF_BLOCKS = 0.43, 0.68  # correlation of the gradients of the two layers; its median over the blocks
_NEGATIVE_RHO = 0.6  # the same for negative correlation, which no two layers have
# and the ends are different images:
_MIN_DIFFERENCE = 35.0  # root mean squared difference of their cells
_AREA, _CHANGED = 0.8, 15.0  # share of the blocks in which it is at least this large
# The spread of an image of one color is below the first, of an image with content above the second.
FLAT, _CONTRAST = 2.5, 6.0
# In a wipe, each cell of a sample equals the start or the end, up to the first share of the ends' squared distance; a
# moving line explains at least the second share of the variance of the moments at which cells change.
_PIECED, _SWEEP = 0.05, 0.75


def frame_descriptors(images: RGBImage) -> Floats:
    """Return descriptors (N, 401) of images (N, H, W, 3) uint8 RGB: mean colors of the cells less 128, (8 * 16 * 3,),
    whole numbers, so that inner products are exact in any order; mean squared gradient in each block, (16,); and the
    spread, the standard deviation of cells and gradients together, near 0 for an image of one color."""
    N, height, width, _ = images.shape
    if height < ROWS or width < COLUMNS:
        images = images.repeat(-(-ROWS // height), 1).repeat(-(-COLUMNS // width), 2)
        height, width = images.shape[1:3]
    sums = _overlaps(height, ROWS) @ images.reshape(N, height, -1).astype(np.float32)
    sums = sums.reshape(N * ROWS, -1) @ _sums_of_columns(width)
    cells = np.rint(sums / (height * width)).reshape(N, -1) - 128
    mean = np.full(ROWS * COLUMNS, 1 / (ROWS * COLUMNS), np.float32) @ cells.reshape(N, -1, 3)  # exact in any order
    variance = np.einsum("nd,nd->n", cells, cells) / CELLS - (mean * mean).mean(1)
    # All images below one another; the differences between two of them are dropped at the end.
    green = cv2.extractChannel(images.reshape(N * height, width, 3), 1)
    squares = np.zeros((N * height, width), np.float32)
    cv2.accumulateSquare(cv2.absdiff(green[:, 1:], green[:, :-1]), squares[:, :-1])
    cv2.accumulateSquare(cv2.absdiff(green[1:], green[:-1]), squares[:-1])
    squares = squares.reshape(N, height, width)[:, :-1, :-1]
    rows, columns = (_overlaps(size, _BLOCKS) / size for size in squares.shape[1:])
    energy: Floats = np.asarray(rows @ (squares @ columns.T), np.float32).reshape(N, -1)
    return np.hstack([cells, energy, np.sqrt(variance + energy.mean(1))[:, None]])


@cache
def _overlaps(size: int, parts: int) -> Floats:
    """Return how much of each pixel is in each of equal parts, (parts, size), in whole multiples of 1 / parts."""
    edges = np.arange(parts + 1)[:, None] * size
    return np.asarray(np.diff(np.clip(edges - np.arange(size) * parts, 0, parts), axis=0), np.float32)


@cache
def _sums_of_columns(width: int) -> Floats:
    """Return the matrix from a row's pixels to sums of each channel over columns of cells, (width * 3, COLUMNS * 3)."""
    return np.kron(_overlaps(width, COLUMNS).T, np.eye(3, dtype=np.float32))


@dataclass(frozen=True)
class Window:
    """Samples from the last one of an image to the first one of another."""

    kind: str  # dissolve, wipe, out or in: the last two go to and come from an image of one color
    start: int
    end: int
    score: float


@dataclass(frozen=True)
class Samples:
    """M samples that follow each other."""

    cells: Floats  # (M, 384)
    energy: Floats  # (M, 16)
    spread: Floats  # (M,)
    flat: Flags  # (M,), whether a sample has one color
    products: Floats  # (M, M), inner products of the cells of two samples

    @classmethod
    def of(cls, descriptors: Floats) -> Samples:
        cells, energy, spread = descriptors[:, :CELLS], descriptors[:, CELLS:-1], descriptors[:, -1]
        return cls(cells, energy, spread, spread < FLAT, cells @ cells.T)

    def squared_distance(self, one: Indices, other: Indices) -> Floats:
        """Return the squared distance between the cells of samples, in the shape of the indices."""
        square = np.diagonal(self.products)
        return np.asarray(square[one] + square[other] - 2 * self.products[one, other])


@dataclass(frozen=True)
class Candidates:
    """K windows that may be transitions."""

    start: Indices  # (K,), samples
    end: Indices  # (K,), samples
    between: Indices  # (K, 7), samples between start and end
    pace: Floats  # (K, 7), where these lie: 0 at the start, 1 at the end

    def __getitem__(self, rows: Indices) -> Candidates:
        return Candidates(self.start[rows], self.end[rows], self.between[rows], self.pace[rows])


def windows(samples: Samples, newest: int) -> list[Window]:
    """Return the windows that end within the newest samples and may be a dissolve, a wipe or half a fade."""
    candidates = all_candidates(len(samples.cells), newest)
    for test in (ends_differ, middle_is_mixed):  # these two reject most, at little cost
        candidates = candidates[np.flatnonzero(test(samples, candidates))]
    candidates = candidates[np.flatnonzero(likeness(samples, candidates) < _CORRELATION)]
    if not candidates.start.size:
        return []
    weight, off = weights(samples, candidates, candidates.between)
    mixture = mixture_cost(samples, candidates, weight, off)
    wipe = wipe_cost(samples, candidates, weight, off)
    cost = np.minimum(mixture, wipe)
    faded = is_fade(samples, candidates)
    passing = np.flatnonzero(cost < 1)
    passing = passing[changes_everywhere(samples, candidates[passing]) | faded[passing]]
    transitions = []
    for i in passing.tolist():
        start, end = int(candidates.start[i]), int(candidates.end[i])
        score = (end - start) * (1 - float(cost[i]) ** 2)
        if faded[i]:  # preferred to a dissolve inside the fade
            transitions.append(Window("in" if samples.flat[start] else "out", start, end, 2 * score))
        else:
            transitions.append(Window("dissolve" if mixture[i] < wipe[i] else "wipe", start, end, score))
    return transitions


@cache
def all_candidates(count: int, newest: int) -> Candidates:
    """Return the windows of all lengths among ``count`` samples that end within the newest of them."""
    lengths = np.unique(np.geomspace(_SHORTEST, LONGEST, _LENGTHS).astype(int))
    end, length = (grid.ravel() for grid in np.meshgrid(np.arange(count - newest, count), lengths))
    end, length = end[end >= length], length[end >= length]
    offset = np.rint(length[:, None] * np.arange(1, 8) / 8)
    between = (end - length)[:, None] + offset.astype(np.int64)
    return Candidates(end - length, end, between, (offset / length[:, None]).astype(np.float32))


def is_fade(samples: Samples, candidates: Candidates) -> Flags:
    """Return whether a window begins or ends with an image of one color, (K,)."""
    return samples.flat[candidates.start] | samples.flat[candidates.end]


def ends_differ(samples: Samples, candidates: Candidates) -> Flags:
    """Return whether the ends of a window have different cells, and one of them has content, (K,)."""
    least = np.where(is_fade(samples, candidates), _CONTRAST**2, _MIN_DIFFERENCE**2) * CELLS
    content = np.maximum(samples.spread[candidates.start], samples.spread[candidates.end])
    distance = samples.squared_distance(candidates.start, candidates.end)
    return np.asarray((distance >= least) & (content > _CONTRAST))


def middle_is_mixed(samples: Samples, candidates: Candidates) -> Flags:
    """Return whether the middle of a window is a mixture of its ends, about half of each, (K,)."""
    weight, off = weights(samples, candidates, candidates.between[:, 3:4])
    return np.asarray((np.abs(weight - candidates.pace[:, 3:4]) < _PACE) & (off < 3 * _OFF_LINE))[:, 0]


def changes_everywhere(samples: Samples, candidates: Candidates) -> Flags:
    """Return whether nearly all blocks of the image change, (K,): a moving object leaves some unchanged."""
    change = samples.cells[candidates.end] - samples.cells[candidates.start]
    change = change.reshape(-1, _BLOCKS, ROWS // _BLOCKS, _BLOCKS, COLUMNS // _BLOCKS, 3)
    area = ((change * change).mean((2, 4, 5)) > _CHANGED**2).mean((1, 2))
    return np.asarray(area >= _AREA)


def mixture_cost(samples: Samples, candidates: Candidates, weight: Floats, off: Floats) -> Floats:
    """Return the deviation of each window from a dissolve or half a fade, (K,); below 1: it is one."""
    uneven, alike = np.abs(weight - candidates.pace).max(1), np.maximum(likeness(samples, candidates), 0)
    cost = (uneven / _PACE) ** 2 + (off.mean(1) / _OFF_LINE) ** 2 + (alike / _CORRELATION) ** 2
    rows = np.flatnonzero((cost < _MIXTURE_LIMIT) & ~is_fade(samples, candidates))
    cost[rows] += (layers(samples.energy, candidates[rows], weight[rows]) ** 2).sum(1)
    return np.asarray(np.sqrt(cost / _MIXTURE_LIMIT))


def wipe_cost(samples: Samples, candidates: Candidates, weight: Floats, off: Floats) -> Floats:
    """Return the deviation of each window from a wipe, (K,); below 1: it is one."""
    pieced = np.abs(off - weight * (1 - weight)).mean(1) / _PIECED
    cost = np.maximum(np.abs(weight - candidates.pace).max(1) / _PACE, pieced)
    cost[is_fade(samples, candidates)] = np.inf
    rows = np.flatnonzero(cost < 1)
    cost[rows] = np.maximum(cost[rows], sweep(samples.cells, candidates[rows]))
    return np.asarray(cost)


def likeness(samples: Samples, candidates: Candidates) -> Floats:
    """Return the correlation of the cells of each window's ends, (K,); 0 with an image of one color, which has none."""
    start, end = candidates.start, candidates.end
    mean = samples.cells.mean(1)
    deviation = np.sqrt(np.maximum(np.diagonal(samples.products) / CELLS - mean * mean, 1))
    together = samples.products[start, end] / CELLS - mean[start] * mean[end]
    return np.where(is_fade(samples, candidates), 0, together / (deviation[start] * deviation[end]))


def weights(samples: Samples, candidates: Candidates, between: Indices) -> tuple[Floats, Floats]:
    """Locate the samples ``between`` (K, n) relative to the line through the ends of each window: the nearest place on
    the line (K, n), 0 at the start and 1 at the end, and the squared distance from it (K, n), divided by the ends'."""
    square = np.diagonal(samples.products)
    s, e = candidates.start[:, None], candidates.end[:, None]
    distance = samples.squared_distance(s, e)
    from_start = samples.products[between, s]
    weight = (samples.products[between, e] - from_start - samples.products[s, e] + square[s]) / distance
    return weight, (square[between] + square[s] - 2 * from_start) / distance - weight * weight


def layers(energy: Floats, candidates: Candidates, weight: Floats) -> Floats:
    """Return how far gradients deviate from two uncorrelated layers, over all blocks and in the median one, (K, 2)."""
    energy = energy + 1  # noise, in blocks without gradients
    rho = correlation(energy.mean(1, keepdims=True), candidates, weight)[:, 0]
    of_blocks = np.median(correlation(energy, candidates, weight), 1)
    return np.stack([np.maximum(rho / _RHO, -rho / _NEGATIVE_RHO), np.maximum(of_blocks / _RHO_OF_BLOCKS, 0)], 1)


def correlation(energy: Floats, candidates: Candidates, weight: Floats) -> Floats:
    """Fit rho of each window in each block, (K, blocks), to the energy of all samples (M, blocks), above 0, and the
    share of the end in each sample between, (K, n)."""
    a = np.clip(weight, 0, 1)[:, :, None]
    before, after = energy[candidates.start][:, None], energy[candidates.end][:, None]
    alone = (1 - a) ** 2 * before + a * a * after
    together = 2 * a * (1 - a) * np.sqrt(before * after)
    excess = (energy[candidates.between] - alone) * together
    return np.asarray(excess.sum(1) / np.maximum((together * together).sum(1), 1e-6), np.float32)


def sweep(cells: Floats, candidates: Candidates) -> Floats:
    """Return the deviation of each window from a wipe whose line moves evenly over the image, (K,)."""
    colors = cells.reshape(len(cells), -1, 3)
    start, end, between = (colors[rows] for rows in (candidates.start, candidates.end, candidates.between))
    to_start, to_end = (_squared_distance(between, other[:, None]) for other in (start, end))
    odd = np.minimum(to_start, to_end).sum(2).mean(1) / _squared_distance(end, start).sum(1)
    moment = (to_start <= to_end).sum(1)  # of each cell: in how many of the samples it has not changed yet
    moment = moment - moment.mean(1, keepdims=True)
    line = ((moment @ _places()) ** 2).sum(1) / np.maximum((moment * moment).sum(1), 1e-6)
    return np.asarray(np.maximum(odd / _PIECED, (1 - line) / (1 - _SWEEP)))


def _squared_distance(one: Floats, other: Floats) -> Floats:
    """Return squared distances of colors, (..., 3) to (...); a sum over so short an axis would take thrice as long."""
    change = one - other
    change *= change
    return np.asarray(change[..., 0] + change[..., 1] + change[..., 2])


@cache
def _places() -> NDArray[np.float64]:
    """Return unit vectors that rise over the columns and over the rows of the cells, (cells, 2)."""
    places = np.stack([(g - g.mean()).ravel() for g in np.meshgrid(np.arange(COLUMNS), np.arange(ROWS))], 1)
    return np.asarray(places / np.linalg.norm(places, axis=0))
