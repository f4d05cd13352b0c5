"""Shot encoders by name, by file, by id or out of a model, and the features of an index that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BasslError, StoreError
from pipelines.models.boundary import BoundaryModel
from pipelines.models.encoders import (
    DEFAULT_ENCODER,
    INPUT_SIZE,
    EncoderOptions,
    EncoderPrecision,
    Preparation,
    check_download,
    check_encoder,
    is_published,
    named_encoder,
    precision_of,
)
from pipelines.models.encoders.onnx_encoder import BUILT_IN, open_onnx_encoder
from pipelines.models.encoders.shot_encoder import KEYFRAMES, ShotEncoder
from pipelines.models.opening import open_model

if TYPE_CHECKING:  # start-up time: h5py, which `bassl predict` does without
    from pipelines.stores.features import IndexedFeatures
    from pipelines.stores.index import Index


def load_encoder(
    source: str | Path = DEFAULT_ENCODER,
    device: str = "auto",
    keyframes: int = KEYFRAMES,
    preparation: Preparation | None = None,
    options: EncoderOptions = EncoderOptions(),
    precision: EncoderPrecision = "float32",
) -> ShotEncoder:
    """Load a shot encoder, ready to run.

    Args:
        source: ``efficientnet_lite0`` (in the package), the path of an ONNX file, ``resnet50`` or another of
            torchvision's ResNets or ``timm:NAME`` (published weights, downloaded once), or the path of a model file or
            run folder: its own encoder, or the one that it was trained with.
        device: ``auto`` (a GPU if there is one), ``cpu``, ``cuda:1``, ...; ONNX files run on the CPU.
        keyframes: N_k.
        preparation: of images. Default: ``center`` for the encoder of a pre-trained model (release), or ``squeeze``.
        options: for an ONNX file.
        precision: of a torch encoder, part of its id; ``auto`` is bfloat16 if the device computes in it.
    Raises BasslError for an unknown name or device, weights that cannot be downloaded, a model without an encoder, or
    one that was fine-tuned on features of another ``preparation`` or ``precision``.
    """
    check_encoder(source)
    is_onnx = Path(source).suffix.lower() == ".onnx"
    if options != EncoderOptions() and not is_onnx:
        raise BasslError(
            f"`encoder_mean`, `encoder_std`, `encoder_size` and `encoder_output` are for ONNX files, not for {source}"
        )
    if is_onnx or source == DEFAULT_ENCODER:
        if precision == "bfloat16":
            raise BasslError(f"`precision=bfloat16` is for encoders of torch; {source} computes as its file says")
        return open_onnx_encoder(Path(source) if is_onnx else BUILT_IN, keyframes, preparation or "squeeze", options)
    from pipelines.models.encoders.torch_encoders import torch_encoder  # optional dependency: torch

    build = partial(torch_encoder, device=device, keyframes=keyframes, precision=precision)
    if is_published(source):
        return build(str(source), None, size=None, preparation=preparation or "squeeze")
    opened = open_model(source)
    if not opened.has_weights:
        encoder = encoder_of_model(opened.boundary_model(), opened.file, device, keyframes)
        if preparation not in (None, encoder.preparation) or precision == "bfloat16" != encoder.precision:
            facts = f"{encoder.id}, prepared by {encoder.preparation}, computed in {encoder.precision}"
            raise BasslError(f"{source}: reads features of {facts}; leave `preparation` and `precision` out")
        return encoder
    model = opened.weights
    if (name := model.settings.encoder) is None:
        raise StoreError(f"{opened.file}: has no shot encoder; name another model or an encoder")
    if not model.encoder:
        return encoder_of_id(name, device, keyframes, str(opened.file), precision=precision)
    return build(name, model.encoder, file=opened.file, size=model.input_size, preparation=preparation or "center")


def encoder_of_model(
    model: BoundaryModel, file: Path, device: str, keyframes: int, requested: str | None = None
) -> ShotEncoder:
    """Return the encoder whose features a fine-tuned model reads, with the model's own weights if it has some. ``file``
    is the model's, for messages. Raises BasslError as `encoder_of_id`."""
    if model.encoder is None:
        raise BasslError(f"{file}: reads features of any encoder and has none of its own; name one")
    if not model.encoder_weights:
        return encoder_of_id(model.encoder, device, keyframes, str(file), requested)
    from pipelines.models.encoders.torch_encoders import torch_encoder  # optional dependency: torch

    encoder = torch_encoder(
        model.encoder_name or "",
        model.encoder_weights,
        device,
        file=file,
        keyframes=keyframes,
        size=model.input_size or INPUT_SIZE,
        preparation=model.preparation or "center",
        precision=precision_of(model.encoder),
    )
    _check_identity(encoder, model.encoder, file)
    return encoder


def encoder_of_id(
    identity: str,
    device: str,
    keyframes: int,
    asker: str,
    requested: str | None = None,
    precision: EncoderPrecision = "float32",
) -> ShotEncoder:
    """Return the encoder with an id, which determines its precision, or a name, for the file ``asker`` that was trained
    on its features. Raises BasslError if the encoder is unknown or has another id here, or would be downloaded and is
    not the ``requested`` one."""
    check_download(identity, requested, asker)
    if identity == DEFAULT_ENCODER or is_published(identity):
        return load_encoder(identity, device, keyframes, precision=precision)
    if (name := named_encoder(identity)) is None:
        raise BasslError(
            f"{asker}: was trained on features called {identity!r}, which cannot be computed from keyframes here; "
            "name their store with `features`, or the ONNX file of that encoder with `encoder`"
        )
    load = partial(load_encoder, name, device, keyframes, precision=precision_of(identity))
    if (encoder := load()).id != identity and (centered := load(preparation="center")).id == identity:
        return centered
    _check_identity(encoder, identity, asker)
    return encoder


def _check_identity(encoder: ShotEncoder, identity: str, asker: Path | str) -> None:
    if encoder.id != identity:
        raise BasslError(
            f"{asker}: was trained on features of {identity}, but {encoder.name} with {encoder.keyframes} keyframes "
            f"per shot is {encoder.id} here; extract as many keyframes, or train it on features of this encoder"
        )


# --- features of an index ---------------------------------------------------------------------------------------------


def encoder_for(
    index: Index,
    encoder: str | Path | None = None,
    preparation: Preparation | None = None,
    *,
    asker: Path | None = None,
    requested: str | None = None,
) -> str:
    """Return the id of the encoder whose features are used for an index: ``encoder``, the path of a model that has one,
    a name or an id; else what the index names, or the default encoder. Raises BasslError if it cannot be loaded, or if
    the file ``asker`` names one to download that is not the ``requested`` one."""
    if encoder is None and index.encoder:
        return index.encoder
    encoder = encoder or DEFAULT_ENCODER
    if isinstance(encoder, str) and encoder != DEFAULT_ENCODER and not is_published(encoder):
        return encoder
    if asker is not None and isinstance(encoder, str):
        check_download(encoder, requested, asker)
    return load_encoder(encoder, "cpu", index.keyframes or KEYFRAMES, preparation).id


def features_for(
    index: Index,
    videos: Sequence[int],
    folder: Path,
    encoder: str | Path | None = None,
    *,
    asker: Path | None = None,
    compute: Callable[[], Path] | None = None,
) -> IndexedFeatures:
    """Return the features of some videos of an index: from ``folder`` if it is a feature store itself, else those of
    the encoder (see `encoder_for`) by `find_features`, or from the store that ``compute`` makes of the keyframes.
    Raises BasslError as `encoder_for` and `features_of`, or if there are none."""
    from pipelines.stores.features import features_of, find_features, is_store  # start-up time: h5py

    if is_store(folder):
        return features_of(index, [folder], videos)
    identity = encoder_for(index, encoder, asker=asker)
    stores = find_features(index, identity, folder, videos)
    if not stores:
        if compute is None or not index.keyframes:
            remedy = "run `bassl encode`" if index.keyframes else "run `bassl extract-keyframes` and `bassl encode`"
            raise BasslError(f"{index.path}: has no features of {identity}; {remedy}, or pass a store with `features`")
        stores = (compute(),)
    return features_of(index, stores, videos)
