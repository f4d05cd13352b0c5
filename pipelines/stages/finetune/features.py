"""The features that fine-tuning learns from: of the stores that are named, of the index, or computed now and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from pipelines.errors import BasslError
from pipelines.models.encoder_options import is_published, named_encoder
from pipelines.models.encoders import encoder_for, encoder_of_id
from pipelines.models.shot_encoder import KEYFRAMES, Preparation
from pipelines.models.sound import RowsWithSound, missing_note, stored_sound
from pipelines.settings import Compute, Indexed, RunSettings
from pipelines.stages.encode import EncodeSettings, encode_shots
from pipelines.stages.finetune.settings import FinetuneSettings
from pipelines.stages.finetune.start import PretrainedSource, Report
from pipelines.stores.features import ShotRows, features_of, find_features, keyframe_facts
from pipelines.stores.index import Index
from pipelines.training.distributed import Process
from pipelines.video.sound import SOUND


@dataclass(frozen=True, eq=False)
class FrozenEncoder:
    """The encoder of the features, as `BoundaryModel` remembers it."""

    id: str
    name: str | None  # on the command line; None if it has none
    # of a pre-trained model; empty if the name implies them
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    input_size: int | None = None  # side of its input, if it has weights


@dataclass(frozen=True, eq=False)
class Encoding:
    """Features (T, D_e) in the rows of the index, the encoder that made them, and the shots' hue histograms (T, H)."""

    features: ShotRows
    encoder: FrozenEncoder
    colour: ShotRows | None
    sound: str | None = None  # name of the features of sound that are joined to the encoder's


def find_encoding(
    settings: FinetuneSettings,
    index: Index,
    videos: Sequence[int],
    start: PretrainedSource,
    process: Process,
    report: Report,
) -> Encoding:
    """The features of these videos: from the stores that the settings name, else from the index or the feature folder,
    else computed now. Raises BasslError if they are missing and cannot be computed, or are of another encoder than the
    pre-trained model's."""
    own = _encoder_of(start, index, settings)
    if settings.data.features:
        stored = features_of(index, settings.data.features, videos)
        _check_encoder(stored.encoder, start, own, settings.data.features)
        encoder = own or FrozenEncoder(stored.encoder, named_encoder(stored.encoder))
        return Encoding(stored.features, encoder, stored.colour)
    source: str | Path | None = start.path
    if own is None:
        source = (start.weights.settings.encoder if start.weights is not None else None) or settings.encoder
        identity = encoder_for(index, source, settings.preparation)
        own = FrozenEncoder(identity, source if source and is_published(source) else named_encoder(identity))
    stores = find_features(index, own.id, settings.feature_folder, videos)
    if not stores:
        how = settings.preparation
        if not own.weights:
            source, how = _computable(own, index, start)
        assert source is not None
        report(f"computes the features of the labelled videos once, into {settings.feature_folder}")
        encoding = EncodeSettings(
            Indexed(settings.data.index),
            source,
            RunSettings(settings.feature_folder),
            compute=Compute(settings.compute.device, settings.compute.workers or None),
            preparation=how,
        )
        stores = (encode_shots(encoding, process=process, videos=videos),)
    stored = features_of(index, stores, videos)
    return Encoding(stored.features, own, stored.colour)


def join_sound(encoding: Encoding, index: Index, store: Path, videos: Sequence[int], report: Report) -> Encoding:
    """Features joined with the sound of a store. Raises StoreError as `pipelines.models.sound.stored_sound`, and
    BasslError if the store has none of the videos."""
    sounds, missing = stored_sound(index, store, videos)
    if len(missing) == len(videos):
        raise BasslError(f"{store}: has no sound of the videos of {index.path}; run `bassl extract-sound` on them")
    if missing:
        report(missing_note(store, missing, len(videos)))
    return replace(encoding, features=RowsWithSound(encoding.features, sounds), sound=SOUND)


def known_keyframe_facts(index: Index) -> Mapping[str, Any]:
    """How the keyframes of an index were made; empty if they are missing."""
    try:
        return keyframe_facts(index)
    except BasslError:  # features without their keyframes are enough to learn from
        return {}


def _encoder_of(start: PretrainedSource, index: Index, settings: FinetuneSettings) -> FrozenEncoder | None:
    """The encoder in the pre-trained model; None if it has none of its own."""
    if start.weights is None or not start.weights.encoder or start.path is None:
        return None
    identity = encoder_for(index, start.path, settings.preparation)
    return FrozenEncoder(identity, start.weights.settings.encoder, start.weights.encoder, start.weights.input_size)


def _check_encoder(made_by: str, start: PretrainedSource, own: FrozenEncoder | None, stores: Sequence[Path]) -> None:
    """Check that features are of the encoder that the pre-trained model has or learned from."""
    if start.weights is None:
        return
    wanted = start.weights.settings.encoder if own is None else own.id
    # A name alone stands for its published weights.
    if made_by == wanted or (own is None and wanted is not None and named_encoder(made_by) == wanted):
        return
    raise BasslError(
        f"{', '.join(map(str, stores))}: features of {made_by}, and {start.path} was pre-trained with {wanted}; leave "
        "--features out, name its --preparation (centre or squeeze), or start from scratch with --init none"
    )


def _computable(encoder: FrozenEncoder, index: Index, start: PretrainedSource) -> tuple[str, Preparation]:
    """The name by which an encoder is loaded, and how images are prepared for it. Raises BasslError if it has no
    name, or the name stands for another encoder here."""
    if encoder.name is None:
        raise BasslError(
            f"{index.path}: has no features of {encoder.id}, and they cannot be computed here; "
            "run `bassl encode` on a machine that has the encoder, or name their store with --features"
        )
    found = encoder_of_id(encoder.id, "cpu", index.keyframes or KEYFRAMES, str(start.path or index.path))
    return encoder.name, found.preparation
