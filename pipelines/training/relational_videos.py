"""Training videos of the relational network, and random variations of them (data augmentation)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

# For fine-tuning; the built-in model is fitted to the original videos.
VIEWS = 4  # forms of each video: the video itself, and variations of it
_REORDERED_SHARE = 0.5  # share of variations whose scenes are put in a random order
# In a variation, non-negative features are raised to a random power from this range, which changes the similarity of
# shots as another encoder would.
_POWERS = (0.5, 1.25)


@dataclass(frozen=True)
class LabeledVideo:
    """One video to learn from, its shots perhaps in another order."""

    features: NDArray[np.float32]
    durations: NDArray[np.float64]  # (N,) in seconds
    scene_end: NDArray[np.uint8]  # (N,)
    # (N,) False for a guess in `scene_end`, which is not learned; None: all are labels
    known: NDArray[np.bool_] | None = None
    color: NDArray[np.float32] | None = None  # (N, H) hue histograms; None if unknown


def reorder_scenes(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """The video with its scenes, each kept whole, in a random order."""
    scene = np.cumsum(video.scene_end, dtype=np.int64) - video.scene_end
    rank = generator.permutation(int(scene[-1]) + 1)
    order = np.argsort(rank[scene], kind="stable")
    ends = np.append(scene[order][1:] != scene[order][:-1], video.scene_end[-1] == 1).astype(np.uint8)
    known = None
    if video.known is not None:
        # Where two scenes were joined, there certainly is an end.
        known = np.append((video.known[order] | (ends == 1))[:-1], video.known[-1])
    color = None if video.color is None else video.color[order]
    return LabeledVideo(video.features[order], video.durations[order], ends, known, color)


def vary(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """A random variation of a video: its scenes reordered, its features raised to a power.

    It is not reversed: the evidence at each cut would be the same, and the network is symmetric in time.
    """
    if generator.random() < _REORDERED_SHARE:
        video = reorder_scenes(video, generator)
    power = generator.uniform(*_POWERS)
    return replace(video, features=video.features**power) if (video.features >= 0).all() else video
