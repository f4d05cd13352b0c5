"""Posterior of a scene end at each cut, over all segmentations of a video into scenes, without learning.

Whether a scene ends at a cut also depends on the other possible scene ends. So each range of shots gets a worth (its
log weight as a scene), and the worth of a segmentation is the sum over its scenes. The forward-backward algorithm of a
semi-Markov model then gives the posterior of a scene end at each cut. There are three kinds of worth: the share of the
links of a range of shots that stay inside it (normalized association, Shi and Malik 2000), the predictive likelihood of
each of its shots given the others (of a Chinese restaurant process with a kernel), and the likelihood of all its shots
under a common mean (a Gaussian with random effects on principal axes).

A worth is a table (L, N): `[m - 1, j]` is the worth of the m shots that end with shot j. Entries of ranges that would
begin before the video are finite and never used.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ODDS_LIMIT = 12.0  # log odds are clipped here


def posterior_log_odds(worth: Floats) -> Floats:
    """Return the log odds of a scene end at each cut, over all divisions of a video into scenes of at most L shots:
    worths (N, L, B) of B kinds, N >= 1, to (B, N - 1), between -`ODDS_LIMIT` and `ODDS_LIMIT`. O(B L N) time."""
    N, L, B = worth.shape
    # Row L + n: log of the sum over all divisions of the first n shots, and of the last n.
    sums = np.full((L + N + 1, 2 * B), -np.inf)
    sums[L] = 0.0
    ranges = worth.reshape(N * L, B)  # the range of m shots whose last is shot j: row j L + m - 1
    for n in range(1, N + 1):
        shortest = min(L, n)
        ending = worth[n - 1, :shortest]  # scenes that end n shots after the video's start
        starting = ranges[(N - n) * L :: L + 1][:shortest]  # scenes that begin n shots before the video's end
        values = np.hstack([ending, starting])[::-1] + sums[n + L - shortest : n + L]
        greatest = values.max(axis=0)
        sums[L + n] = greatest + np.log(np.exp(values - greatest).sum(axis=0))
    before, after = sums[:, :B], sums[:, B:]
    # For a nearly certain end, rounding may make the sum through it greater than the total.
    logs = np.minimum(before[L + 1 : L + N] + after[L + 1 : L + N][::-1] - before[L + N], -1e-9)
    return np.asarray(np.clip(logs - np.log(-np.expm1(logs)), -ODDS_LIMIT, ODDS_LIMIT).T)


# --- worths -----------------------------------------------------------------------------------------------------------


def association(weights: Floats, longest: int) -> Floats:
    """Return the share of the links of each range of shots that stay inside it, (L, N), between 0 and 1, from the
    weights (N, reach + 1) between shots i and i + k of a graph; 0 if there is no shot i + k."""
    N, reach = len(weights), weights.shape[1] - 1
    degree = weights[:, 0].copy()
    for k in range(1, min(reach, N - 1) + 1):
        degree[:-k] += weights[:-k, k]
        degree[k:] += weights[:-k, k]
    kept = range_sums(weights[:, 0], longest) + 2 * pair_sums(weights, longest)
    everything = range_sums(degree, longest)
    return np.asarray(kept / np.where(everything > 0, everything, 1.0))


def predictive_likelihood(kernels: Floats, backgrounds: Sequence[float], longest: int) -> Floats:
    """Return the log ratio of the predictive likelihood of each range's shots given its others to the likelihood given
    the video, summed, (B, L, N), in O(B N L^2).

    The likelihood of a shot is the mean of its kernel to the others and to some background shots, for which it is 1.
    `kernels`: (B, N, reach + 1), of shots i and i + k, their mean over pairs 1; 0 if there is no shot i + k.
    `backgrounds`: (B,) number of background shots; above 0.
    """
    B, N, width = kernels.shape
    some, extra = min(longest, N), np.asarray(backgrounds, dtype=np.float64)[:, None]
    # Sums of a shot's kernels to the a shots before it, at the first of these, and to the a after it, at the last.
    back, on = np.zeros((some, B, N)), np.zeros((some, B, N))
    for a in range(1, some):
        back[a, :, : N - a], on[a, :, a:] = back[a - 1, :, 1 : N - a + 1], on[a - 1, :, a - 1 : N - 1]
        if a < width:
            back[a, :, : N - a] += kernels[:, : N - a, a]
            on[a, :, a:] += kernels[:, : N - a, a]
    back += extra
    sums = np.zeros((B, longest, N))
    for m in range(1, some + 1):
        # Logarithms take most of the time: one is taken per product of sixteen terms, which cannot overflow a double.
        for first in range(0, N - m + 1, 256):
            last = min(first + 256, N - m + 1)
            terms = back[:m, :, first:last] + on[m - 1 :: -1, :, first + m - 1 : last + m - 1]
            products = np.multiply.reduceat(terms, np.arange(0, m, 16), axis=0)
            sums[:, m - 1, first + m - 1 : last + m - 1] = np.log(products).sum(axis=0) - m * np.log(extra + m - 1)
    return sums


def common_mean(parts: Floats, scales: Sequence[Floats], ratios: Sequence[float], longest: int) -> Floats:
    """Return the log likelihood ratio of the shots of each range: about their own mean, against about the video's mean,
    (S, R, L, N), from coordinates (N, d) about the video's mean, d >= 0.

    `scales`: S of (d,), by which coordinates are divided, after which they have variance 1 (each, or all together).
    `ratios`: R of variance between scenes over variance within.

    Source: the marginal likelihood of a Gaussian with random effects, such as S. Searle, G. Casella, C. McCulloch:
        Variance Components, 1992.
    """
    d, m = parts.shape[1], np.arange(1.0, longest + 1)[:, None]
    sums = range_sums(parts, longest)
    sums *= sums
    likelihoods = np.empty((len(scales), len(ratios), longest, len(parts)))
    for scale, tables in zip(scales, likelihoods, strict=True):
        precision = 1 / scale**2
        squares, of_sums = range_sums(parts**2 @ precision, longest), sums @ precision
        for ratio, table in zip(ratios, tables, strict=True):
            within, between = 1 / (1 + ratio), ratio / (1 + ratio)
            spread = within + m * between
            distance = (squares - of_sums * (between / spread)) / within
            table[:] = (squares - distance - d * ((m - 1) * np.log(within) + np.log(spread))) / 2
    return likelihoods


# --- sums that worths are made of -------------------------------------------------------------------------------------


def range_sums(x: Floats, longest: int) -> Floats:
    """Return sums over the shots of each range, (N, ...) to (L, N, ...); 0 if it would begin before the video."""
    N = len(x)
    upto = np.concatenate([np.zeros((1, *x.shape[1:])), np.cumsum(x, axis=0)])
    sums = np.zeros((longest, *x.shape))
    for m in range(1, min(longest, N) + 1):
        sums[m - 1, m - 1 :] = upto[m:] - upto[:-m]
    return sums


def pair_sums(band: Floats, longest: int) -> Floats:
    """Return sums over the pairs of different shots of each range, (L, N); 0 if it would begin before the video.
    `band`: (N, reach + 1), reach >= 1, of shots i and i + k; 0 if there is no shot i + k, and beyond the reach."""
    N, reach = len(band), band.shape[1] - 1
    onwards = np.cumsum(band[:, 1:], axis=1)
    sums = np.zeros((longest, N))
    for m in range(2, min(longest, N) + 1):
        sums[m - 1, m - 1 :] = sums[m - 2, m - 1 :] + onwards[: N - m + 1, min(m - 2, reach - 1)]
    return sums


def principal_parts(features: NDArray[np.floating[Any]], axes: int) -> Floats:
    """Return coordinates of shots (N, D) on their first principal axes, about their mean, (N, `axes` or fewer): axes of
    negligible variance are left out, possibly all. O(N D m + m^3) with m = min(N, D)."""
    N, D = features.shape
    centered = features - features.mean(axis=0, dtype=np.float64)
    gram = centered.T @ centered if D <= N else centered @ centered.T  # the smaller of the two products
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[-axes:], vectors[:, -axes:]
    alive = (values > 1e-6 * values[-1]) & (values > 1e-9 * N)
    values, vectors = values[alive], vectors[:, alive]
    return np.asarray(centered @ vectors if D <= N else vectors * np.sqrt(values))
