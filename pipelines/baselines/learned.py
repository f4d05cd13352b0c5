"""Systems whose networks are trained on labeled videos: Siamese and LGSS."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn import cluster, exceptions
from torch import Tensor, nn

from pipelines.baselines import (
    Features,
    Floats,
    Labeled,
    Segmentation,
    block_sums,
    center,
    segmentation,
    squared_distances,
)
from pipelines.baselines.graphs import spectral_embedding
from pipelines.models.calibration import sigmoid
from pipelines.models.networks import MSLSTMSettings
from pipelines.models.networks.cut_evidence import unit_rows
from pipelines.models.networks.torch_networks import MSLSTM, one_thread, sequence_starts, sequence_windows

# --- Siamese: Baraldi, Grana and Cucchiara 2015 -----------------------------------------------------------------------


@dataclass(frozen=True)
class SiameseSettings:
    """Settings of `siamese`."""

    network: SiameseNetwork  # the learned distance (`train_siamese`)
    temporal: float = 3.0  # alpha: weight of the squared distance in minutes beside the squared learned distance


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
    """Maps features of shots to an embedding in which shots of a scene are close."""

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
    """Learn a distance on a device from the first feature set of each video; returns the network on the CPU. The loss
    is contrastive: d^2 for two shots of one scene, max(0, 1 - d)^2 for two of different scenes (Hadsell, Chopra and
    LeCun 2006). Raises ValueError if there is no pair of shots of one scene or of different scenes."""
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


# --- LGSS: Rao et al. 2020 --------------------------------------------------------------------------------------------

_ONE_THREAD = 64  # widths up to which one thread is as fast as several, and gives the same digits on every machine


@dataclass(frozen=True)
class LGSSSettings:
    """Settings of `lgss`."""

    network: LGSSNetwork  # the trained network (`train_lgss`)
    supershots: float = 4.0  # super shots at the start of the global step, per scene expected from the training videos
    rounds: int = 1  # global steps; the scenes of each are the super shots of the next. 0: the first are the scenes


def lgss(sets: Sequence[Floats], times: Floats, settings: LGSSSettings) -> Segmentation:
    """Score the cut after each shot from the shots around it and its neighboring cuts, then group the whole video.

    1. *Clip*: a boundary network for each modality (place, cast, action, sound, ...) computes a vector from the shots
       before and after a cut: cosines of temporal filters on both sides, and the maximum of temporal filters over both.
    2. *Segment*: a bidirectional LSTM for each modality reads the vectors of consecutive cuts. The modalities' logits
       are averaged; a sigmoid gives the score of the cut.
    3. *Video*: the cuts with the highest scores divide the video into super shots C. Of all divisions of these into
       scenes, the one with the greatest sum of g is taken,
       g(scene) = sum over its C of F_s(C) + F_t(C), where F_s is the mean similarity of C to the other super shots of
       the scene, and F_t is sigma(similarity to the most similar of them). The scenes become super shots, and this is
       repeated.

    Score: the output of step 2, for every cut.

    Source: A. Rao, L. Xu, Y. Xiong, G. Xu, Q. Huang, B. Zhou, D. Lin: A local-to-global approach to multi-modal movie
    scene segmentation, CVPR 2020.
    """
    scores = settings.network.probabilities(sets)
    N = len(scores)
    count = min(N, max(1, round(settings.supershots * N / settings.network.shots_per_scene)))
    ends = np.sort(np.argsort(-scores[:-1], kind="stable")[: count - 1])
    for _ in range(settings.rounds):
        grouped = ends[best_grouping(scene_worth(super_shot_similarities(sets, ends)))]
        if len(grouped) == len(ends):
            break
        ends = grouped
    return segmentation(ends, scores)


def super_shot_similarities(sets: Sequence[Floats], ends: NDArray[np.int64]) -> Floats:
    """Return similarities of super shots, (M, M), from 0 to 1, 0 on the diagonal; `ends`: all but the video's last."""
    starts = np.concatenate([[0], ends + 1])
    alike = []
    for one in sets:
        unit = unit_rows(np.add.reduceat(center(one), starts, axis=0), 1e-12)  # the sums have the means' directions
        alike.append(np.clip(unit @ unit.T, 0.0, 1.0))
    similarity = np.mean(alike, axis=0)
    np.fill_diagonal(similarity, 0.0)
    return np.asarray(similarity)


def scene_worth(similarity: Floats) -> Floats:
    """Return g of every scene of consecutive super shots, (M, M): `[i, j]` from i to j; -infinity if j < i."""
    M = len(similarity)
    sums = block_sums(similarity)
    # On the diagonal sigma(0), the minimum: similarity to itself does not count.
    likeness = sigmoid(similarity)
    worth = np.full((M, M), -np.inf)
    for i in range(M):
        counts = np.arange(M - i)  # number of other super shots
        within = sums[range(i + 1, M + 1), range(i + 1, M + 1)] - sums[i, i + 1 :] - sums[i + 1 :, i] + sums[i, i]
        nearest = np.maximum.accumulate(likeness[i:, i:], axis=1)  # [l, j]: for super shot l of i to j
        worth[i, i:] = within / np.maximum(counts, 1) + np.triu(nearest).sum(axis=0)
    return worth


def best_grouping(worth: Floats) -> NDArray[np.int64]:
    """Return last super shots of the scenes, without the video's last, of the division with the greatest total
    `scene_worth`; of equal ones, a division with fewer scenes at the end of the video."""
    M = len(worth)
    best = np.zeros(M + 1)  # value of the first n super shots
    begins = np.zeros(M + 1, dtype=np.int64)
    for n in range(1, M + 1):
        sums = best[:n] + worth[:n, n - 1]
        begins[n] = int(sums.argmax())
        best[n] = sums[begins[n]]
    ends: list[int] = []
    n = int(begins[M])
    while n > 0:
        ends.append(n - 1)
        n = int(begins[n])
    return np.array(ends[::-1], dtype=np.int64)


@dataclass(frozen=True)
class LGSSTraining:
    """Hyperparameters of the networks and their training."""

    neighbors: int = 2  # shots on each side of a cut that the boundary network sees (the release: four shots in all)
    # number of filters, and width of the LSTM in each direction (512 in the release, with 190 training videos)
    width: int = 32
    sequence: int = 10  # T: number of consecutive cuts that the LSTM reads (as in the release)
    epochs: int = 15  # passes over all shots
    batch_size: int = 16  # sequences per step
    learning_rate: float = 1e-3  # of AdamW, with its default weight decay


class LGSSNetwork(nn.Module):
    """Predicts the probability that a scene ends with each shot of a video, from one or several feature sets."""

    def __init__(self, widths: Sequence[int], training: LGSSTraining, shots_per_scene: float) -> None:
        super().__init__()
        self.shots_per_scene = shots_per_scene
        self.neighbors, self.sequence = training.neighbors, training.sequence
        self.branches = nn.ModuleList(
            MSLSTM(MSLSTMSettings(training.neighbors, width, training.width, training.sequence)) for width in widths
        )

    def forward(self, windows: Sequence[Tensor]) -> Tensor:
        """Map for each modality (B, T, 2K, D_m) shots around T consecutive cuts, to (B, T) logits."""
        each = [branch(one) for branch, one in zip(self.branches, windows, strict=True)]
        logits = torch.stack(each).mean(dim=0)
        return logits[..., 1] - logits[..., 0]

    def windows(self, video: Sequence[Tensor], shots: NDArray[np.int64]) -> list[Tensor]:
        """Return the windows around the cuts after shots (B, T), as input of `forward`."""
        rows = torch.from_numpy(sequence_windows(np.array([0, len(video[0])]), shots, self.neighbors))
        return [one[rows] for one in video]

    @torch.inference_mode()
    def probabilities(self, sets: Sequence[Floats]) -> Floats:
        """Return scene-end probabilities (N,), from 0 to 1, for a video with features (N, D_m), sets as in training."""
        self.eval()
        N = len(sets[0])
        length = min(self.sequence, N)
        shots = sequence_starts(N, length)[:, None] + np.arange(length)
        with one_thread():
            values = torch.sigmoid(self(self.windows(prepare(sets), shots))).double().numpy()
        probabilities = np.empty(N)
        probabilities[shots.ravel()] = values.ravel()  # if the last two sequences overlap, the later one is kept
        return probabilities


def train_lgss(
    videos: Sequence[Labeled], seed: int = 0, device: torch.device | str = "cpu", **hyperparameters: Any
) -> LGSSNetwork:
    """Train boundary networks and sequence models with cross-entropy, balanced in each batch. `hyperparameters` are
    fields of `LGSSTraining`. Returns the network on the CPU. Raises ValueError if no video has a scene end."""
    training = LGSSTraining(**hyperparameters)
    scenes = sum(int(video.scene_end[:-1].sum()) + 1 for video in videos)
    if scenes == len(videos):
        raise ValueError("training needs videos with scene ends")
    prepared_videos = [[one.to(device) for one in prepare(video.features)] for video in videos]
    targets = [torch.from_numpy(np.asarray(video.scene_end, dtype=np.float32)).to(device) for video in videos]
    generator = np.random.default_rng(seed)
    shots = sum(len(video.scene_end) for video in videos)
    with torch.random.fork_rng(devices=[]), nullcontext() if training.width > _ONE_THREAD else one_thread():
        torch.manual_seed(seed)
        widths = [one.shape[1] for one in videos[0].features]
        network = LGSSNetwork(widths, training, shots / scenes).to(device).train()
        optimizer = torch.optim.AdamW(network.parameters(), lr=training.learning_rate)
        for _ in range(training.epochs):
            for number, sequences in _epoch(targets, training, generator):
                target = targets[number][torch.from_numpy(sequences)]
                logits = network(network.windows(prepared_videos[number], sequences))
                ends = float(target.sum())
                # A batch of one class has half the weight, as in fine-tuning.
                weight = torch.where(target > 0, 0.5 / max(ends, 1.0), 0.5 / max(target.numel() - ends, 1.0))
                loss = F.binary_cross_entropy_with_logits(logits, target, weight, reduction="sum")
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return network.cpu().eval()


def prepare(sets: Sequence[Features]) -> list[Tensor]:
    """Return each feature set minus the video's mean, scaled to unit length, as in all systems here."""
    return [torch.from_numpy(center(np.asarray(one, dtype=np.float64)).astype(np.float32)) for one in sets]


def _epoch(
    targets: Sequence[Tensor], training: LGSSTraining, generator: np.random.Generator
) -> list[tuple[int, NDArray[np.int64]]]:
    """Return the steps of an epoch: a video, and the shots (B, T) of its sequences, with a random offset each epoch."""
    steps = []
    for number, target in enumerate(targets):
        N, length = len(target), min(training.sequence, len(target))
        first = int(generator.integers(length)) if length < N else 0
        before = [0] if first else []  # for the shots before the first full sequence
        starts = generator.permutation([*before, *sequence_starts(N, length, first)])
        sequences = starts[:, None] + np.arange(length)
        steps += [
            (number, sequences[i : i + training.batch_size]) for i in range(0, len(sequences), training.batch_size)
        ]
    return [steps[i] for i in generator.permutation(len(steps))]
