"""The network of LGSS: a boundary network and a sequence model for each modality, and training (Rao et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.baselines.segmentation import Features, Floats, Labelled, centre
from pipelines.models.ms_lstm import MSLSTM
from pipelines.models.networks import MSLSTMSettings
from pipelines.models.torch_networks import one_thread, sequence_starts, sequence_windows


@dataclass(frozen=True)
class LGSSTraining:
    """Hyperparameters of the networks and their training."""

    neighbors: int = 2  # shots on each side of a cut that the boundary network sees (the release: four shots in all)
    # number of filters, and width of the LSTM in each direction (512 in the release, with 190 training videos)
    width: int = 32
    sequence: int = 10  # T: number of consecutive cuts that the LSTM reads (as in the release)
    epochs: int = 15  # passes over all shots
    batch_size: int = 16  # sequences per step
    learning_rate: float = 1e-3  # of AdamW
    weight_decay: float = 1e-2  # of AdamW


class LGSSNetwork(nn.Module):
    """Predicts for each shot of a video the probability that a scene ends with it, from one or several feature sets.

    `shots_per_scene` is the mean over the training videos, used for the expected number of scenes.
    """

    def __init__(self, widths: Sequence[int], training: LGSSTraining, shots_per_scene: float) -> None:
        super().__init__()
        self.widths, self.shots_per_scene = tuple(widths), shots_per_scene
        self.neighbors, self.sequence = training.neighbors, training.sequence
        self.branches = nn.ModuleList(
            MSLSTM(MSLSTMSettings(training.neighbors, width, training.width, training.sequence)) for width in widths
        )

    def forward(self, windows: Sequence[Tensor]) -> Tensor:
        """For each modality (B, T, 2K, D_m) shots around T consecutive cuts, to (B, T) logits."""
        each = [branch(one) for branch, one in zip(self.branches, windows, strict=True)]
        logits = torch.stack(each).mean(dim=0)
        return logits[..., 1] - logits[..., 0]

    def windows(self, video: Sequence[Tensor], shots: NDArray[np.int64]) -> list[Tensor]:
        """The windows around the cuts after shots (B, T), as input of `forward`."""
        rows = torch.from_numpy(sequence_windows(np.array([0, len(video[0])]), shots, self.neighbors))
        return [one[rows] for one in video]

    @torch.inference_mode()
    def probabilities(self, sets: Sequence[Floats]) -> Floats:
        """(N,) from 0 to 1, for a video with features (N, D_m). Raises ValueError for other sets than in training."""
        widths = tuple(one.shape[1] for one in sets)
        if widths != self.widths:
            raise ValueError(f"the network was trained on features of the widths {self.widths}, not {widths}")
        self.eval()
        video = prepare(sets)
        N = len(sets[0])
        length = min(self.sequence, N)
        shots = sequence_starts(N, length)[:, None] + np.arange(length)
        with one_thread():
            found = torch.sigmoid(self(self.windows(video, shots))).double().numpy()
        probabilities = np.empty(N)
        probabilities[shots.ravel()] = found.ravel()  # where the last two sequences overlap, the later one is kept
        return probabilities


def train_lgss(videos: Sequence[Labelled], training: LGSSTraining = LGSSTraining(), seed: int = 0) -> LGSSNetwork:
    """Train boundary networks and sequence models with cross-entropy; each class has half the weight of a batch.

    The same seed gives the same network on the same machine; PyTorch's global generator is left as it was. Raises
    ValueError without videos, for videos with different feature sets, or if no video has a scene end.
    """
    widths = {tuple(one.shape[1] for one in video.features) for video in videos}
    if len(widths) != 1 or not all(widths):
        raise ValueError("training needs videos, all with the same feature sets")
    scenes = sum(int(video.scene_end[:-1].sum()) + 1 for video in videos)
    if scenes == len(videos):
        raise ValueError("training needs videos with scene ends")
    prepared_videos = [prepare(video.features) for video in videos]
    targets = [torch.from_numpy(np.asarray(video.scene_end, dtype=np.float32)) for video in videos]
    generator = np.random.default_rng(seed)
    shots = sum(len(video.scene_end) for video in videos)
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        network = LGSSNetwork(widths.pop(), training, shots / scenes).train()
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
        )
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
    return network.eval()


def prepare(sets: Sequence[Features]) -> list[Tensor]:
    """Each feature set minus the video's mean, scaled to unit length, as in all systems here."""
    return [torch.from_numpy(centre(np.asarray(one, dtype=np.float64)).astype(np.float32)) for one in sets]


def _epoch(
    targets: Sequence[Tensor], training: LGSSTraining, generator: np.random.Generator
) -> list[tuple[int, NDArray[np.int64]]]:
    """The steps of an epoch: a video, and the shots (B, T) of its sequences, with a random offset each epoch."""
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
