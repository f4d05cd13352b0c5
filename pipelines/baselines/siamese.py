"""Siamese: learned distance between shots, temporal term, spectral clustering (Baraldi et al. 2015)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipelines.baselines.segmentation import (
    Features,
    Floats,
    Segmentation,
    Times,
    check_features,
    segmentation,
    squared_distances,
    unit_rows,
)
from pipelines.baselines.spectral import spectral_embedding

if TYPE_CHECKING:  # start-up time: torch
    from pipelines.baselines.siamese_network import SiameseNetwork


@dataclass(frozen=True)
class SiameseSettings:
    """Settings of `siamese`."""

    network: SiameseNetwork
    """The learned distance (`pipelines.baselines.siamese_network.train_siamese`)."""
    temporal: float = 3.0
    """alpha: weight of the squared distance in time, in minutes, beside the squared learned distance."""

    def __post_init__(self) -> None:
        if not self.temporal >= 0:
            raise ValueError(f"temporal must be 0 or more: {self}")


def siamese(features: Features, times: Times, settings: SiameseSettings) -> Segmentation:
    """Cluster shots by a distance learned from labelled videos, and end scenes where the cluster changes.

    The affinity of two shots is exp(-(d^2 + alpha t^2) / (2 sigma^2)), d the distance of their embeddings
    and t the distance of their middles in time. The rows of the leading eigenvectors of D^-1/2 A D^-1/2, scaled to
    unit length, are clustered (Ng, Jordan and Weiss 2001).

    Choices made here: the paper trains AlexNet and adds words of the transcript; here the network has two layers on the
    features. Time is in minutes, so that the weight of the temporal term does not depend on the video's length.
    2 sigma^2 is the video's mean of d^2. The number of clusters is at the greatest gap between eigenvalues, searched
    between half and twice the number expected from the training videos: over all numbers, the greatest gap is nearly
    always the first. Clusters are found by k-means, the best of five starts with a fixed seed.

    Score: the distance between the clustered rows of the shot and of the next one. Raises ValueError also if the
    network was trained on features of another width.

    Complexity: O(N^2 D) for the distances, O(C N^2) for C eigenvectors, O(C^2 N) for each step of k-means; O(N^2)
    memory.

    Source: L. Baraldi, C. Grana, R. Cucchiara: A deep siamese network for scene detection in broadcast videos,
    ACM Multimedia 2015.
    """
    from sklearn import cluster, exceptions  # start-up time: scikit-learn; the command line reads all systems' names

    x, t = check_features(features, times)
    N = len(x)
    expected = N / settings.network.shots_per_scene
    most = min(N, max(1, round(2 * expected)))
    values, vectors = spectral_embedding(affinities(settings.network.embed(x), t, settings.temporal), most + 1)
    count = greatest_gap(values, round(expected / 2), most)
    rows = unit_rows(vectors[:, :count], 1e-12)
    with warnings.catch_warnings():  # a video may have fewer distinct shots than clusters
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        clusters = cluster.KMeans(count, n_init=5, random_state=0).fit_predict(rows)
    jumps = np.concatenate([np.linalg.norm(np.diff(rows, axis=0), axis=1), [-np.inf]])
    return segmentation(np.flatnonzero(np.diff(clusters)), jumps)


def affinities(points: Floats, times: Floats, temporal: float) -> Floats:
    """Affinities of shots, (N, N), from 0 to 1."""
    apart = squared_distances(points, points)
    minutes = times.mean(axis=1) / 60
    spread = float(apart.mean()) or 1.0
    return np.asarray(np.exp(-(apart + temporal * (minutes[:, None] - minutes) ** 2) / spread))


def greatest_gap(values: Floats, least: int, most: int) -> int:
    """The number of values before the greatest gap of descending values, between `least` and `most`."""
    least, most = max(1, least), min(most, len(values) - 1)
    if most <= least:
        return min(least, len(values))
    gaps = values[least - 1 : most] - values[least : most + 1]
    return least + int(gaps.argmax())
