"""Scores and scene ends of a video's shots, with a loaded model and its encoder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError
from pipelines.models.boundary import BoundaryModel
from pipelines.models.encoder_loading import encoder_of_model, load_encoder
from pipelines.models.encoders import DEFAULT_ENCODER, named_encoder
from pipelines.models.encoders.shot_encoder import KEYFRAMES, ShotEncoder, encode_groups
from pipelines.models.opening import OpenedModel
from pipelines.progress import ReportProgress
from pipelines.scenes import Shot
from pipelines.stages.settings import PredictSettings
from pipelines.video.images import from_jpeg, to_jpeg
from pipelines.video.shots import KeyframedShot


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """Model and encoder, with the JPEG quality of the model's training keyframes."""

    model: BoundaryModel
    encoder: ShotEncoder
    quality: int | None

    def scored_shots(self, reading: Iterable[KeyframedShot], cores: int, report: ReportProgress) -> tuple[Shot, ...]:
        """Encode the shots of a video as they are read, and score them."""
        shots, features, color = self.encoded_shots(reading, cores)
        report("scoring", 0.0, None)  # the process that reads ends meanwhile
        durations = np.array([shot.end - shot.start for shot in shots])
        scores = self.model.score(features, durations, color)
        return tuple(replace(shot, score=float(score)) for shot, score in zip(shots, scores, strict=True))

    def encoded_shots(
        self, reading: Iterable[KeyframedShot], cores: int
    ) -> tuple[list[Shot], NDArray[np.float32], NDArray[np.float32]]:
        """Encode shots as they are read, on half of the cores (reading has the others) or on a GPU. Return the shots
        without scores, their features (N, D_e) and their hue histograms (N, HUES)."""
        shots: list[Shot] = []
        features: list[NDArray[np.float32]] = []
        color: list[NDArray[np.float32]] = []
        groups = self.encoder.groups(reading)
        threads = 1 if self.encoder.on_gpu else max(1, cores // 2)
        with closing(encode_groups(self.encoder, groups, self._keyframes, threads)) as encoded:
            for group, values, hues in encoded:
                features.append(values)
                color.append(hues)
                for shot in group:
                    frames = (shot.start_frame, shot.end_frame)
                    shots.append(Shot(len(shots), *frames, shot.start, shot.end, math.nan, shot.transition))
        return shots, np.concatenate(features), np.concatenate(color)

    def _keyframes(self, shots: Sequence[KeyframedShot]) -> Iterator[Sequence[NDArray[np.uint8]]]:
        """Yield the keyframes of shots after a round trip through JPEG, as the model learned from."""
        for shot in shots:
            if self.quality is None:
                yield shot.keyframes
            else:
                yield [from_jpeg(to_jpeg(image, self.quality)) for image in shot.keyframes]


def load(opened: OpenedModel, settings: PredictSettings) -> LoadedModel:
    """Load a model, and its encoder or the one in the settings. Raises BasslError, one line, if they do not match."""
    model, file = opened.boundary_model(), opened.file
    encoder = _encoder(model, file, settings)
    if model.width not in (None, encoder.width):
        raise BasslError(f"{file}: needs features of width {model.width}, but {encoder.id} has {encoder.width}")
    return LoadedModel(model, encoder, opened.keyframe_facts.get("quality"))


def _encoder(model: BoundaryModel, file: Path, settings: PredictSettings) -> ShotEncoder:
    requested, device, keyframes = settings.encoder, settings.compute.device, model.keyframes or KEYFRAMES
    refusal = f"{file}: was trained on features of {model.encoder}, not of"
    if model.encoder is None or (requested is not None and requested.lower().endswith(".onnx")):
        encoder = load_encoder(requested or DEFAULT_ENCODER, device, keyframes, options=settings.encoder_options)
        if model.encoder not in (None, encoder.id):
            raise BasslError(f"{refusal} {encoder.id}")
        return encoder
    names: set[str | None] = {model.encoder}
    if not model.encoder_weights:  # a name means published weights; weights in a model file were trained further
        names |= {model.encoder_name, named_encoder(model.encoder)}
    if requested is not None and requested not in names:
        raise BasslError(f"{refusal} {requested}; leave `encoder` out")
    return encoder_of_model(model, file, device, keyframes, requested)
