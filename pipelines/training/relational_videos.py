"""Videos that the relational network learns from, and random variations of them (data augmentation)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

# Of fine-tuning; the built-in model is fitted to the videos as they are.
VIEWS = 4  # forms of each video that are learned from: the video itself, and variations of it
_REORDERED_SHARE = 0.5  # of the variations: their scenes are put in a random order
# In a variation, non-negative features are raised to a random power from this range. It changes how alike shots look,
# as another encoder would.
_POWERS = (0.5, 1.25)


@dataclass(frozen=True)
class LabelledVideo:
    """One video to learn from, its shots perhaps in another order."""

    features: NDArray[np.float32]
    durations: NDArray[np.float64]  # (N,) in seconds
    scene_end: NDArray[np.uint8]  # (N,)
    # (N,) False where `scene_end` is a guess instead of a label, and not to be learned; None: all are labels
    known: NDArray[np.bool_] | None = None
    colour: NDArray[np.float32] | None = None  # (N, H) hue histograms; None where they are not known


def reorder_scenes(video: LabelledVideo, generator: np.random.Generator) -> LabelledVideo:
    """The video with its scenes, each kept whole, in a random order."""
    scene = np.cumsum(video.scene_end, dtype=np.int64) - video.scene_end
    rank = generator.permutation(int(scene[-1]) + 1)
    order = np.argsort(rank[scene], kind="stable")
    ends = np.append(scene[order][1:] != scene[order][:-1], video.scene_end[-1] == 1).astype(np.uint8)
    known = None
    if video.known is not None:
        # Where two scenes were put together there is an end for certain.
        known = np.append((video.known[order] | (ends == 1))[:-1], video.known[-1])
    colour = None if video.colour is None else video.colour[order]
    return LabelledVideo(video.features[order], video.durations[order], ends, known, colour)


def vary(video: LabelledVideo, generator: np.random.Generator) -> LabelledVideo:
    """A random variation of a video: its scenes reordered, its features raised to a power.

    It is not reversed: the evidence at each cut would be the same, and the network reads in both directions.
    """
    if generator.random() < _REORDERED_SHARE:
        video = reorder_scenes(video, generator)
    power = generator.uniform(*_POWERS)
    return replace(video, features=video.features**power) if (video.features >= 0).all() else video
