"""Siamese: learned distance between shots, temporal term, spectral clustering (Baraldi et al. 2015)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn import cluster, exceptions
from torch import Tensor, nn

from pipelines.baselines import Floats, Labeled, Segmentation, segmentation, squared_distances
from pipelines.baselines.graphs import spectral_embedding
from pipelines.models.networks.cut_evidence import unit_rows
from pipelines.models.networks.torch_networks import one_thread


@dataclass(frozen=True)
class SiameseSettings:
    """Settings of `siamese`."""

    network: SiameseNetwork
    """The learned distance (`train_siamese`)."""
    temporal: float = 3.0
    """alpha: weight of the squared distance in time, in minutes, beside the squared learned distance."""


def siamese(features: Floats, times: Floats, settings: SiameseSettings) -> Segmentation:
    """Cluster shots by a distance learned from labeled videos, and end scenes where the cluster changes.

    The affinity of two shots is exp(-(d^2 + alpha t^2) / (2 sigma^2)), d the distance of their embeddings and t the
    distance of their middles in time. The rows of the leading eigenvectors of D^-1/2 A D^-1/2, scaled to unit length,
    are clustered (Ng, Jordan and Weiss 2001).

    Score: the distance between the clustered rows of the shot and of the next one.

    Source: L. Baraldi, C. Grana, R. Cucchiara: A deep siamese network for scene detection in broadcast videos,
    ACM Multimedia 2015.
    """
    N = len(features)
    expected = N / settings.network.shots_per_scene
    most = min(N, max(1, round(2 * expected)))
    values, vectors = spectral_embedding(
        affinities(settings.network.embed(features), times, settings.temporal), most + 1
    )
    count = greatest_gap(values, round(expected / 2), most)
    rows = unit_rows(vectors[:, :count], 1e-12)
    with warnings.catch_warnings():  # a video may have fewer distinct shots than clusters
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        clusters = cluster.KMeans(count, n_init=5, random_state=0).fit_predict(rows)
    jumps = np.concatenate([np.linalg.norm(np.diff(rows, axis=0), axis=1), [-np.inf]])
    return segmentation(np.flatnonzero(np.diff(clusters)), jumps)


def affinities(points: Floats, times: Floats, temporal: float) -> Floats:
    """Return affinities of shots, (N, N), from 0 to 1."""
    apart = squared_distances(points, points)
    minutes = times.mean(axis=1) / 60
    spread = float(apart.mean()) or 1.0
    return np.asarray(np.exp(-(apart + temporal * (minutes[:, None] - minutes) ** 2) / spread))


def greatest_gap(values: Floats, least: int, most: int) -> int:
    """Return the number of values before the greatest gap of descending values, between `least` and `most`."""
    least, most = max(1, least), min(most, len(values) - 1)
    if most <= least:
        return min(least, len(values))
    gaps = values[least - 1 : most] - values[least : most + 1]
    return least + int(gaps.argmax())


# --- the learned distance ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SiameseTraining:
    """Hyperparameters of the network and its training."""

    hidden: int = 256  # width of the hidden layer
    dimensions: int = 64  # width of the embedding
    reach: int = 30  # maximum distance of a pair in shots: farther pairs are all of different scenes, and easy
    epochs: int = 20  # epochs; in each, a shot is paired with one of its own scene, if there is one, and one of another
    batch_size: int = 256  # pairs per step
    learning_rate: float = 1e-3  # of AdamW, with its default weight decay
    dropout: float = 0.2  # of the features and the hidden layer


class SiameseNetwork(nn.Module):
    """Maps features of shots to an embedding in which shots of the same scene are close. `shots_per_scene` is the mean
    over the training videos."""

    def __init__(self, width: int, training: SiameseTraining, shots_per_scene: float) -> None:
        super().__init__()
        self.shots_per_scene = shots_per_scene
        self.layers = nn.Sequential(
            nn.Dropout(training.dropout),
            nn.Linear(width, training.hidden),
            nn.ReLU(),
            nn.Dropout(training.dropout),
            nn.Linear(training.hidden, training.dimensions),
        )

    def forward(self, features: Tensor) -> Tensor:
        """Map features of unit length (B, D) to embeddings of unit length (B, dimensions)."""
        points: Tensor = F.normalize(self.layers(features), dim=1)
        return points

    @torch.inference_mode()
    def embed(self, features: Floats) -> Floats:
        """Embed features (N, D), of the width in training, as (N, dimensions)."""
        self.eval()
        points: Floats = self(_unit(features)).double().numpy()
        return points


def train_siamese(
    videos: Sequence[Labeled],
    training: SiameseTraining = SiameseTraining(),
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> SiameseNetwork:
    """Learn a distance on a device; returns the network on the CPU.

    The loss is contrastive: d^2 for two shots of one scene, max(0, 1 - d)^2 for two of different scenes (Hadsell,
    Chopra and LeCun 2006), from the first feature set of each video. PyTorch's global generator is left as it was.
    Raises ValueError if there is no pair of shots of one scene or of different scenes."""
    pairs = [_Pairs(video.scene_end, training.reach) for video in videos]
    if not all(sum(p.sizes[kind] for p in pairs) for kind in range(2)):
        raise ValueError("training needs videos with pairs of shots of the same scene and of different scenes")
    features = torch.cat([_unit(np.asarray(video.features[0], dtype=np.float64)) for video in videos]).to(device)
    starts = np.cumsum([0, *(len(video.scene_end) for video in videos)])
    scenes = sum(int(video.scene_end[:-1].sum()) + 1 for video in videos)
    generator = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        network = SiameseNetwork(features.shape[1], training, len(features) / scenes).to(device).train()
        optimizer = torch.optim.AdamW(network.parameters(), lr=training.learning_rate)
        for _ in range(training.epochs):
            drawn = [p.draw(generator) + start for p, start in zip(pairs, starts[:-1], strict=True)]
            same = np.concatenate([np.repeat([1, 0], p.sizes) for p in pairs])
            shots, target = torch.from_numpy(np.concatenate(drawn)), torch.from_numpy(same).float().to(device)
            for batch in torch.split(torch.randperm(len(target)), training.batch_size):
                one, other = network(features[shots[batch, 0]]), network(features[shots[batch, 1]])
                distance = (one - other).square().sum(dim=1).add(1e-8).sqrt()
                near, far = distance.square(), (1 - distance).clamp_min(0).square()
                loss = (target[batch] * near + (1 - target[batch]) * far).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return network.cpu().eval()


class _Pairs:
    """Pairs of nearby shots of a video, of the same scene and of different scenes."""

    def __init__(self, scene_end: NDArray[np.integer], reach: int) -> None:
        N = len(scene_end)
        scene = np.cumsum(scene_end, dtype=np.int64) - scene_end
        near = np.abs(np.arange(N)[:, None] - np.arange(N)) <= reach
        same = scene[:, None] == scene
        self.same, self.other = near & same & ~np.eye(N, dtype=bool), near & ~same
        self.sizes = [int(self.same.any(axis=1).sum()), int(self.other.any(axis=1).sum())]

    def draw(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """Draw (P, 2) pairs: `sizes[0]` of the same scene, then `sizes[1]` of different scenes."""
        pairs = []
        for allowed in (self.same, self.other):
            shots = np.flatnonzero(allowed.any(axis=1))
            partners = np.where(allowed[shots], generator.random((len(shots), allowed.shape[1])), -1.0).argmax(axis=1)
            pairs.append(np.stack([shots, partners], axis=1))
        return np.concatenate(pairs)


def _unit(features: Floats) -> Tensor:
    return torch.from_numpy(unit_rows(features, 0).astype(np.float32))
