"""What the relational CRN learns from: films, and the variations of them that fine-tuning shows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipelines.datasets.shot_features import ShotFeatures
from pipelines.models.relational import shot_tokens


@dataclass(frozen=True)
class TrainingSettings:
    """What fine-tuning shows of a film. The model in the box is fitted to the films as they are."""

    views: int = 4
    """Forms of each film that are learned from: the film itself, and variations of it."""
    reordered_share: float = 0.5
    """Share of variations whose scenes are put in a random order."""
    powers: tuple[float, float] = (0.5, 1.25)
    """In a variation, non-negative features are raised to a random power from this range. It changes how alike shots
    look, as another encoder would."""


@dataclass(frozen=True)
class Film:
    """One film in the form that training shows it; what `ShotFeatures` holds, perhaps in another order.

    Attributes:
        features: (N, D) float32.
        durations: (N,) in frames.
        scene_end: (N,) uint8.
        known: (N,) False where `scene_end` is no label but a guess, and not to be learned; None: all are labels.
    """

    features: NDArray[np.float32]
    durations: NDArray[np.int64] | NDArray[np.float64]
    scene_end: NDArray[np.uint8]
    known: NDArray[np.bool_] | None = None


def as_film(video: ShotFeatures) -> Film:
    """A video, as training shows it."""
    return Film(video.features, video.durations, video.scene_end)


def with_scenes_reordered(film: Film, generator: np.random.Generator) -> Film:
    """The film with its scenes, each kept whole, in a random order."""
    scene = np.cumsum(film.scene_end, dtype=np.int64) - film.scene_end
    rank = generator.permutation(int(scene[-1]) + 1)
    order = np.argsort(rank[scene], kind="stable")
    ends = np.append(scene[order][1:] != scene[order][:-1], film.scene_end[-1] == 1).astype(np.uint8)
    known = None
    if film.known is not None:
        # Where two scenes were put together there is an end for certain.
        known = np.append((film.known[order] | (ends == 1))[:-1], film.known[-1])
    return Film(film.features[order], film.durations[order], ends, known)


def film_tokens(film: Film) -> tuple[Tensor, Tensor]:
    """What a network may know about a film, (N, F), and its labels, (N,) float."""
    return torch.from_numpy(shot_tokens(film.features, film.durations)), torch.from_numpy(
        film.scene_end.astype(np.float32)
    )


def varied(film: Film, training: TrainingSettings, generator: np.random.Generator) -> Film:
    """The film as an epoch may show it: with its scenes reordered, its features raised to a power.

    It is not shown backwards: the evidence is the same at each cut, and the network reads both ways.
    """
    if generator.random() < training.reordered_share:
        film = with_scenes_reordered(film, generator)
    power = generator.uniform(*training.powers)
    return replace(film, features=film.features**power) if (film.features >= 0).all() else film
