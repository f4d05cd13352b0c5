"""Films that the relational network learns from, and random variations of them (data augmentation)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

# Of fine-tuning; the built-in model is fitted to the films as they are.
VIEWS = 4  # forms of each film that are learned from: the film itself, and variations of it
_REORDERED_SHARE = 0.5  # of the variations: their scenes are put in a random order
# In a variation, non-negative features are raised to a random power from this range. It changes how alike shots look,
# as another encoder would.
_POWERS = (0.5, 1.25)


@dataclass(frozen=True)
class LabelledFilm:
    """One film to learn from, its shots perhaps in another order."""

    features: NDArray[np.float32]
    durations: NDArray[np.float64]  # (N,) in seconds
    scene_end: NDArray[np.uint8]  # (N,)
    # (N,) False where `scene_end` is a guess instead of a label, and not to be learned; None: all are labels
    known: NDArray[np.bool_] | None = None
    colour: NDArray[np.float32] | None = None  # (N, H) hue histograms; None where they are not known


def reorder_scenes(film: LabelledFilm, generator: np.random.Generator) -> LabelledFilm:
    """The film with its scenes, each kept whole, in a random order."""
    scene = np.cumsum(film.scene_end, dtype=np.int64) - film.scene_end
    rank = generator.permutation(int(scene[-1]) + 1)
    order = np.argsort(rank[scene], kind="stable")
    ends = np.append(scene[order][1:] != scene[order][:-1], film.scene_end[-1] == 1).astype(np.uint8)
    known = None
    if film.known is not None:
        # Where two scenes were put together there is an end for certain.
        known = np.append((film.known[order] | (ends == 1))[:-1], film.known[-1])
    colour = None if film.colour is None else film.colour[order]
    return LabelledFilm(film.features[order], film.durations[order], ends, known, colour)


def vary(film: LabelledFilm, generator: np.random.Generator) -> LabelledFilm:
    """A random variation of a film: its scenes reordered, its features raised to a power.

    It is not reversed: the evidence at each cut would be the same, and the network reads in both directions.
    """
    if generator.random() < _REORDERED_SHARE:
        film = reorder_scenes(film, generator)
    power = generator.uniform(*_POWERS)
    return replace(film, features=film.features**power) if (film.features >= 0).all() else film
