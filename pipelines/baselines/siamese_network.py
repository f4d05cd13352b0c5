"""The embedding network of the Siamese baseline, trained with a contrastive loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.baselines.segmentation import Floats, Labelled, unit_rows
from pipelines.models.torch_networks import one_thread


@dataclass(frozen=True)
class SiameseTraining:
    """Hyperparameters of the network and its training."""

    hidden: int = 256  # width of the hidden layer
    dimensions: int = 64  # width of the embedding
    reach: int = 30  # maximum distance of a pair in shots: farther pairs are all of different scenes, and easy
    epochs: int = 20  # epochs; in each, a shot is paired with one of its own scene, if there is one, and one of another
    batch_size: int = 256  # pairs per step
    learning_rate: float = 1e-3  # of AdamW
    weight_decay: float = 1e-2  # of AdamW
    dropout: float = 0.2  # of the features and the hidden layer


class SiameseNetwork(nn.Module):
    """Maps features of shots to an embedding in which shots of the same scene are close.

    `shots_per_scene` is the mean over the training videos, used for the expected number of scenes.
    """

    def __init__(self, width: int, training: SiameseTraining, shots_per_scene: float) -> None:
        super().__init__()
        self.width, self.shots_per_scene = width, shots_per_scene
        self.layers = nn.Sequential(
            nn.Dropout(training.dropout),
            nn.Linear(width, training.hidden),
            nn.ReLU(),
            nn.Dropout(training.dropout),
            nn.Linear(training.hidden, training.dimensions),
        )

    def forward(self, features: Tensor) -> Tensor:
        """Features of unit length (B, D) to embeddings of unit length (B, dimensions)."""
        points: Tensor = F.normalize(self.layers(features), dim=1)
        return points

    @torch.inference_mode()
    def embed(self, features: Floats) -> Floats:
        """Embeddings of the shots of a video, (N, D) to (N, dimensions). Raises ValueError for features of another
        width than in training."""
        if features.shape[1] != self.width:
            raise ValueError(f"the network was trained on features of width {self.width}, not {features.shape[1]}")
        self.eval()
        points: Floats = self(_unit(features)).double().numpy()
        return points


def train_siamese(
    videos: Sequence[Labelled], training: SiameseTraining = SiameseTraining(), seed: int = 0
) -> SiameseNetwork:
    """Learn a distance with the contrastive loss: d^2 for two shots of one scene, max(0, 1 - d)^2 for two of different
    scenes (Hadsell, Chopra and LeCun 2006).

    All videos have features of one width; of several feature sets the first is taken. The same seed gives the same
    network on the same machine; PyTorch's global generator is left as it was. Raises ValueError without videos, a pair
    of shots of one scene, or a pair of different scenes.
    """
    pairs = [_Pairs(video.scene_end, training.reach) for video in videos]
    if not videos or not any(p.has_same for p in pairs) or not any(p.has_other for p in pairs):
        raise ValueError("training needs videos with pairs of shots of the same scene and of different scenes")
    features = torch.cat([_unit(np.asarray(video.features[0], dtype=np.float64)) for video in videos])
    starts = np.cumsum([0, *(len(video.scene_end) for video in videos)])
    scenes = sum(int(video.scene_end[:-1].sum()) + 1 for video in videos)
    generator = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        network = SiameseNetwork(features.shape[1], training, len(features) / scenes).train()
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
        )
        for _ in range(training.epochs):
            drawn = [p.draw(generator) + start for p, start in zip(pairs, starts[:-1], strict=True)]
            same = np.concatenate([np.repeat([1, 0], p.sizes) for p in pairs])
            shots, target = torch.from_numpy(np.concatenate(drawn)), torch.from_numpy(same).float()
            for batch in torch.split(torch.randperm(len(target)), training.batch_size):
                one, other = network(features[shots[batch, 0]]), network(features[shots[batch, 1]])
                distance = (one - other).square().sum(dim=1).add(1e-8).sqrt()
                near, far = distance.square(), (1 - distance).clamp_min(0).square()
                loss = (target[batch] * near + (1 - target[batch]) * far).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return network.eval()


class _Pairs:
    """Pairs of nearby shots of a video, of the same scene and of different scenes."""

    def __init__(self, scene_end: NDArray[np.integer], reach: int) -> None:
        N = len(scene_end)
        scene = np.cumsum(scene_end, dtype=np.int64) - scene_end
        near = np.abs(np.arange(N)[:, None] - np.arange(N)) <= reach
        same = scene[:, None] == scene
        self.same, self.other = near & same & ~np.eye(N, dtype=bool), near & ~same
        self.has_same, self.has_other = bool(self.same.any()), bool(self.other.any())
        self.sizes = [int(self.same.any(axis=1).sum()), int(self.other.any(axis=1).sum())]

    def draw(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """(P, 2) pairs: `sizes[0]` of the same scene, then `sizes[1]` of different scenes."""
        pairs = []
        for allowed in (self.same, self.other):
            shots = np.flatnonzero(allowed.any(axis=1))
            partners = np.where(allowed[shots], generator.random((len(shots), allowed.shape[1])), -1.0).argmax(axis=1)
            pairs.append(np.stack([shots, partners], axis=1))
        return np.concatenate(pairs)


def _unit(features: Floats) -> Tensor:
    return torch.from_numpy(unit_rows(features).astype(np.float32))
