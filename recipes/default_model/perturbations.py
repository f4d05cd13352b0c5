"""Perturbations of labeled videos, which imitate another encoder, another shot detector or another editor.

Settings that are chosen by cross-validation on videos of one kind overfit to that kind. So held-out videos are scored
both unchanged and perturbed. Perturbations of the encoder change the content features only; perturbations of shots
change content and color.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.models.networks.cut_evidence import unit_rows
from pipelines.stores.index import ASSUMED_FRAME_RATE
from pipelines.training.relational_fit import LabeledVideo, reorder_scenes

Floats = NDArray[np.float64]
Perturbation = Callable[[LabeledVideo, np.random.Generator], LabeledVideo]

SHARES = (0.1, 0.3)  # range of the share of shots that another detector would merge, split or miss
SHOT_NOISE = 0.3  # noise on the halves of a split shot, in mean standard deviations of a dimension


# --- another encoder --------------------------------------------------------------------------------------------


def raise_to_power(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Return features raised to a random power, signs kept."""
    power = generator.uniform(0.5, 1.25)
    return _with_features(video, np.sign(video.features) * np.abs(video.features) ** power)


def drop_dimensions(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Return a random half, quarter or eighth of the dimensions, at least eight."""
    width = video.features.shape[1]
    kept = generator.permutation(width)[: max(8, int(width * generator.choice([0.5, 0.25, 0.125])))]
    return replace(video, features=video.features[:, kept])


def project_randomly(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Return features through a random linear layer with a random bias, and ReLU."""
    unit = unit_rows(video.features.astype(np.float64), 1e-9)
    hidden = unit @ generator.normal(size=(unit.shape[1], int(generator.choice([256, 768, 1280]))))
    return _with_features(video, np.maximum(hidden - generator.uniform(-0.5, 1.0) * hidden.std(), 0))


def add_noise(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Add Gaussian noise of 0.2 to 0.6 mean standard deviations to every feature."""
    deviation = generator.uniform(0.2, 0.6) * float(video.features.std(axis=0).mean())
    return _with_features(video, video.features + deviation * generator.normal(size=video.features.shape))


# --- another shot detector --------------------------------------------------------------------------------------


def merge_shots(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Merge adjacent shots of one scene, more likely where they are similar; features are the longest shot's."""
    N, lengths, unit = len(video.features), _lengths(video), unit_rows(video.features.astype(np.float64), 1e-9)
    rank = (unit[:-1] * unit[1:]).sum(axis=1).argsort().argsort() / N
    same = video.scene_end[:-1] == 0
    wish = np.where(same, generator.random(N - 1) + rank, -1.0)
    joined = np.zeros(N - 1, dtype=bool)
    joined[np.argsort(-wish, kind="stable")[: int(generator.uniform(*SHARES) * N)]] = True
    group = np.append(0, np.cumsum(~(joined & same)))
    order = np.lexsort((lengths, group))
    longest = order[np.append(group[order][1:] != group[order][:-1], True)]
    last = np.flatnonzero(np.append(group[1:] != group[:-1], True))
    return replace(
        _with_shots(video, longest),
        durations=np.bincount(group, lengths).astype(np.float64),
        scene_end=video.scene_end[last],
    )


def split_shots(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Split shots, more likely long ones, into two that differ a little."""
    N, lengths = len(video.features), _lengths(video)
    count = int(generator.uniform(*SHARES) * N)
    picks = np.sort(generator.choice(N, size=count, replace=False, p=lengths / lengths.sum()))
    times = np.ones(N, dtype=np.int64)
    times[picks] = 2
    source = np.repeat(np.arange(N), times)
    first = np.cumsum(times)[picks] - 2
    part = np.ones(len(source))
    part[first] = generator.uniform(0.2, 0.8, count)
    part[first + 1] = 1 - part[first]
    ends = video.scene_end[source].copy()
    ends[first] = 0
    halves = np.append(first, first + 1)

    def add_shot_noise(values: NDArray[np.float32]) -> Floats:
        copies = values[source].astype(np.float64)
        noise = SHOT_NOISE * float(values.std(axis=0).mean()) * generator.normal(size=(len(halves), values.shape[1]))
        copies[halves] += noise
        return copies

    features = add_shot_noise(video.features)
    color = None if video.color is None else np.maximum(add_shot_noise(video.color), 0).astype(np.float32)
    return _with_features(LabeledVideo(video.features, lengths[source] * part, ends, color=color), features)


def remove_shots(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Remove shots; a scene that lost its last shot ends with the one before."""
    kept = generator.random(len(video.features)) >= generator.uniform(*SHARES)
    kept[[0, -1]] = True
    scene = (np.cumsum(video.scene_end, dtype=np.int64) - video.scene_end)[kept]
    ends = np.append(scene[1:] != scene[:-1], video.scene_end[-1] == 1).astype(np.uint8)
    return replace(_with_shots(video, np.flatnonzero(kept)), durations=_lengths(video)[kept], scene_end=ends)


# --- another editor ---------------------------------------------------------------------------------------------


def change_lengths(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Return shot lengths raised to a random power: steadier or more uneven editing."""
    return replace(video, durations=_lengths(video) ** generator.uniform(0.4, 1.5))


def add_length_noise(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Return shot lengths times log-normal noise of standard deviation 0.5."""
    return replace(video, durations=_lengths(video) * np.exp(0.5 * generator.normal(size=len(video.durations))))


def equalise_lengths(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Return all shots of one length, so that lengths carry no information."""
    return replace(video, durations=np.ones(len(video.durations)))


PERTURBATIONS: Mapping[str, Perturbation] = {
    "features raised to a power": raise_to_power,
    "1/8 to 1/2 of the dimensions": drop_dimensions,
    "random projection and ReLU": project_randomly,
    "noise on the features": add_noise,
    "shots merged": merge_shots,
    "shots split": split_shots,
    "shots removed": remove_shots,
    "shot lengths raised to a power": change_lengths,
    "noise on the shot lengths": add_length_noise,
    "equal shot lengths": equalise_lengths,
    "scenes reordered": reorder_scenes,
}


def _with_shots(video: LabeledVideo, shots: NDArray[np.int64]) -> LabeledVideo:
    """Return content and color of some shots; the rest of the video is to be replaced."""
    return replace(video, features=video.features[shots], color=None if video.color is None else video.color[shots])


def _with_features(video: LabeledVideo, features: NDArray[np.floating[Any]]) -> LabeledVideo:
    """Return the video with other features, which stay non-negative where they were: most encoders end in a ReLU."""
    if (video.features >= 0).all():
        features = np.maximum(features, 0)
    return replace(video, features=features.astype(np.float32))


def _lengths(video: LabeledVideo) -> Floats:
    return np.maximum(video.durations, 1 / ASSUMED_FRAME_RATE).astype(np.float64)
