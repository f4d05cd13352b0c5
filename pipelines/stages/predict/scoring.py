"""Scores and scene ends of a video's shots, with a loaded model and its encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError, StoreError
from pipelines.models.boundary import BoundaryModel
from pipelines.models.encoder_options import DEFAULT_ENCODER, named_encoder
from pipelines.models.encoders import encoder_of_model, load_encoder
from pipelines.models.opening import OpenedModel
from pipelines.models.shot_encoder import KEYFRAMES, ShotEncoder, encode_groups
from pipelines.scenes import Transition
from pipelines.stages.predict.settings import PredictSettings
from pipelines.stores.jpeg import from_jpeg, to_jpeg
from pipelines.video.shots import KeyframedShot

Item = TypeVar("Item")
Range = tuple[int, int, float, float]
"""First frame and the one after the last of a shot, and the same in seconds."""


@dataclass(frozen=True, eq=False)
class EncodedVideo:
    """A video's N shots: their ranges and transitions, and the input of the model, features (N, D_e) and colour
    (N, 180)."""

    ranges: list[Range]
    transitions: list[Transition | None]
    features: NDArray[np.float32]
    colour: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model with the encoder that it reads, and the JPEG quality of the keyframes that it learned from."""

    model: BoundaryModel
    encoder: ShotEncoder
    quality: int | None


def load(opened: OpenedModel, settings: PredictSettings) -> LoadedModel:
    """Load a model, and the encoder that it was trained with or that the settings name. Raises BasslError, one line,
    where that cannot be done with a video, or is not what was asked for."""
    model, file = opened.boundary_model(), opened.file
    quality = model.keyframe_facts.get("quality")
    if not isinstance(quality, int | None):
        raise StoreError(
            f"{file}: does not say how its keyframes were made: {model.keyframe_facts}; "
            "train or download the model again"
        )
    encoder = _encoder(model, file, settings)
    width = encoder.width
    if model.sound is not None:
        from pipelines.video.sound import SOUND, WIDTH  # start-up time: av, which only few models need here

        if model.sound != SOUND:
            raise StoreError(f"{file}: reads sound as {model.sound}, and this bassl makes {SOUND}; train it again")
        width += WIDTH
    if model.width not in (None, width):
        raise BasslError(f"{file}: reads features of width {model.width}, and those of {encoder.id} have {width}")
    return LoadedModel(model, encoder, quality)


def encode_video(
    loaded: LoadedModel,
    shots: Iterable[KeyframedShot],
    threads: int,
    on_shot: Callable[[KeyframedShot], None] | None = None,
) -> EncodedVideo:
    """Encode the shots of a video as they arrive, in several threads, or in one on a GPU."""
    encoder = loaded.encoder
    ranges: list[Range] = []
    transitions: list[Transition | None] = []
    features: list[NDArray[np.float32]] = []
    colour: list[NDArray[np.float32]] = []
    threads = 1 if encoder.on_gpu else threads
    groups = batched(shots, encoder.shots_at_a_time)
    with closing(encode_groups(encoder, groups, lambda group: _keyframes(loaded, group), threads)) as encoded:
        for group, values, colours in encoded:
            features.append(values)
            colour.append(colours)
            for shot in group:
                ranges.append((shot.start_frame, shot.end_frame, shot.start, shot.end))
                transitions.append(shot.transition)
                if on_shot is not None:
                    on_shot(shot)
    return EncodedVideo(ranges, transitions, np.concatenate(features), np.concatenate(colour))


def add_sound(video: EncodedVideo, path: Path) -> tuple[EncodedVideo, list[str]]:
    """The video with the sound of its shots in its features, and a warning where it is damaged or has none."""
    from pipelines.models.sound import silent, with_sound  # start-up time: h5py, and av in the next
    from pipelines.video.sound import has_sound, shot_sounds

    audible = has_sound(path)
    times = np.array([(start, end) for *_, start, end in video.ranges])
    warnings = [] if audible else [f"{path}: has no sound, which its model reads; its shots count as silent"]
    sounds = shot_sounds(path, times, warn=warnings.append) if audible else silent(len(times))
    return replace(video, features=with_sound(video.features, sounds)), warnings


def score_shots(loaded: LoadedModel, video: EncodedVideo) -> list[float]:
    """The score of each shot of a video."""
    durations = np.array([end - start for *_, start, end in video.ranges])
    return [float(score) for score in loaded.model.score(video.features, durations, video.colour)]


def _encoder(model: BoundaryModel, file: Path, settings: PredictSettings) -> ShotEncoder:
    wanted, device, keyframes = settings.encoder, settings.compute.device, model.keyframes or KEYFRAMES
    refusal = f"{file}: was trained on features of {model.encoder} and cannot read those of"
    if model.encoder is None or (wanted is not None and wanted.lower().endswith(".onnx")):
        encoder = load_encoder(wanted or DEFAULT_ENCODER, device, keyframes, options=settings.encoder_options)
        if model.encoder not in (None, encoder.id):
            raise BasslError(f"{refusal} {encoder.id}")
        return encoder
    names: set[str | None] = {model.encoder}
    if not model.encoder_weights:  # a name means published weights; those that a model brings were trained further
        names |= {model.encoder_name, named_encoder(model.encoder)}
    if wanted is not None and wanted not in names:
        raise BasslError(f"{refusal} {wanted}; leave --encoder out")
    return encoder_of_model(model, file, device, keyframes)


def _keyframes(loaded: LoadedModel, shots: Sequence[KeyframedShot]) -> Iterator[Sequence[NDArray[np.uint8]]]:
    """The keyframes of shots, through the JPEG that the model's own stores keep of each."""
    for shot in shots:
        if loaded.quality is None:
            yield shot.keyframes
        else:
            yield [from_jpeg(to_jpeg(image, loaded.quality)) for image in shot.keyframes]


def batched(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Tuples of ``size`` items, the last perhaps shorter (``itertools.batched`` of Python 3.12)."""
    rest = iter(items)
    while batch := tuple(islice(rest, size)):
        yield batch
