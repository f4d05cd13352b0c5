"""What the relational CRN learns from: films, and the variations of them that an epoch shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipelines.datasets.shot_features import ShotFeatures
from pipelines.models.relational import film_relations, window_tokens


@dataclass(frozen=True)
class TrainingSettings:
    """How one network is trained, and how many vote."""

    epochs: int = 15
    """Passes over all shots. From set to set 4 were too few, and 30 brought less than a point more than 15."""
    batch_size: int = 128
    """Windows in a step."""
    learning_rate: float = 5e-4
    """Peak rate of AdamW; rises over the first twentieth of the steps, then falls as a cosine to zero."""
    weight_decay: float = 0.05
    """Of AdamW, on all weights."""
    reversed_share: float = 0.5
    """Share of films that are shown backwards in an epoch. Two or three points of AP from set to set for a network that
    reads forwards only, less than one for the scorer, which reads both ways."""
    reordered_share: float = 0.5
    """Share of films whose scenes are put in a random order in an epoch. This and `powers` together: up to half a point
    of AP from set to set, which is within the spread of seeds."""
    powers: tuple[float, float] = (0.5, 1.25)
    """Non-negative features are raised to a random power from this range, anew for each film and epoch. It changes
    how alike shots look, as another encoder would."""
    members: int = 3
    """Networks that vote, alike but for their seed."""


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


def backwards(film: Film) -> Film:
    """The film run in reverse: the shot after a scene end becomes the scene end.

    The label of the film's last shot says nothing about a cut, and stays with the last place.
    """

    def turned(cuts: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([cuts[:-1][::-1], cuts[-1:]])

    known = None if film.known is None else turned(film.known)
    return Film(film.features[::-1], film.durations[::-1], turned(film.scene_end), known)


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


def film_tokens(film: Film, neighbors: int) -> tuple[Tensor, Tensor]:
    """All windows of a film: tokens (N, S, S+2) and labels (N,) float."""
    relations = film_relations(film.features, film.durations, neighbors)
    tokens = window_tokens(relations, torch.arange(len(film.features)), neighbors)
    return tokens, torch.from_numpy(film.scene_end.astype(np.float32))


def varied(film: Film, training: TrainingSettings, generator: np.random.Generator) -> Film:
    """The film as an epoch may show it: with its scenes reordered, backwards, its features raised to a power."""
    if generator.random() < training.reordered_share:
        film = with_scenes_reordered(film, generator)
    if generator.random() < training.reversed_share:
        film = backwards(film)
    power = generator.uniform(*training.powers)
    return replace(film, features=film.features**power) if (film.features >= 0).all() else film
