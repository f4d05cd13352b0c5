"""Loading a shot encoder: by name, by its file, by id, or out of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BasslError, StoreError
from pipelines.models.boundary import BoundaryModel
from pipelines.models.encoders.onnx_encoder import BUILT_IN, open_onnx_encoder
from pipelines.models.encoders.options import (
    DEFAULT_ENCODER,
    INPUT_SIZE,
    EncoderOptions,
    EncoderPrecision,
    check_download,
    check_encoder,
    is_published,
    named_encoder,
    precision_of,
)
from pipelines.models.encoders.shot_encoder import KEYFRAMES, PREPARATIONS, Preparation, ShotEncoder
from pipelines.models.opening import open_model

if TYPE_CHECKING:  # start-up time: h5py, which `bassl predict` does without
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
            torchvision's ResNets (ImageNet weights, downloaded once), ``timm:NAME`` (any model of timm, downloaded
            once), or the path of a model file or run folder: its own encoder, or the one that it was trained with.
        device: ``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``cuda:1``, ...; ONNX files run on the CPU.
        keyframes: N_k, keyframes per shot.
        preparation: of images. Default: ``center`` for the encoder of a pre-trained model, as in the evaluation of
            the paper's release, otherwise ``squeeze``.
        options: for an ONNX file.
        precision: of a torch encoder, part of its id; ``auto`` is bfloat16 if the device computes in it. A model that
            was trained on features decides it itself.
    Raises BasslError for an unknown name or device, weights that cannot be downloaded, or a model without an encoder.
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
    from pipelines.models.encoders import torch_encoders  # optional dependency: torch

    if is_published(source):
        preparation = preparation or "squeeze"
        return torch_encoders.torch_encoder(
            str(source), None, device, keyframes=keyframes, size=None, preparation=preparation, precision=precision
        )
    opened = open_model(source)
    if not opened.has_weights:
        encoder = encoder_of_model(opened.boundary_model(), opened.file, device, keyframes)
        if preparation not in (None, encoder.preparation):
            raise BasslError(
                f"{source}: reads features of {encoder.id}, prepared by {encoder.preparation}, not {preparation}"
            )
        if precision == "bfloat16" != encoder.precision:
            raise BasslError(f"{source}: reads features of {encoder.id}, which are not computed in bfloat16")
        return encoder
    name = opened.weights.settings.encoder
    if name is None:
        raise StoreError(f"{opened.file}: has no shot encoder; name another model or an encoder")
    if not opened.has_encoder:
        return encoder_of_id(name, device, keyframes, str(opened.file), precision=precision)
    weights, size = opened.weights.encoder, opened.weights.input_size
    return torch_encoders.torch_encoder(
        name,
        weights,
        device,
        file=opened.file,
        keyframes=keyframes,
        size=size,
        preparation=preparation or "center",
        precision=precision,
    )


def encoder_of_model(
    model: BoundaryModel, file: Path, device: str, keyframes: int, requested: str | None = None
) -> ShotEncoder:
    """Return the encoder whose features a fine-tuned model reads, with the model's own weights if it has some. ``file``
    is the model's, for messages. Raises BasslError if the encoder is unknown or has another id here, or would be
    downloaded and is not the ``requested`` one."""
    if model.encoder is None:
        raise BasslError(f"{file}: reads features of any encoder and has none of its own; name one")
    if not model.encoder_weights:
        return encoder_of_id(model.encoder, device, keyframes, str(file), requested)
    if model.keyframes not in (None, keyframes):
        raise BasslError(
            f"{file}: was trained on {model.keyframes} keyframes per shot and cannot read shots of {keyframes}; "
            f"extract keyframes with `keyframes={model.keyframes}`, or train it again"
        )
    from pipelines.models.encoders.torch_encoders import torch_encoder  # optional dependency: torch

    name, size = model.encoder_name or "", model.input_size or INPUT_SIZE
    for preparation in PREPARATIONS:  # the id is a digest that depends on the preparation
        encoder = torch_encoder(
            name,
            model.encoder_weights,
            device,
            file=file,
            keyframes=keyframes,
            size=size,
            preparation=preparation,
            precision=precision_of(model.encoder),
        )
        if encoder.id == model.encoder:
            return encoder
    raise StoreError(
        f"{file}: was trained on features of {model.encoder}, but its shot encoder is {encoder.id} here; use the "
        "version of bassl that wrote it, or train it again"
    )


def encoder_of_id(
    identity: str,
    device: str,
    keyframes: int,
    asker: str,
    requested: str | None = None,
    precision: EncoderPrecision = "float32",
) -> ShotEncoder:
    """Return the encoder with an id or a name, if its weights can be loaded by name. An id determines its precision,
    ``precision`` is of a name. ``asker``, for messages: what was
    trained on its features. Raises BasslError if the encoder is unknown or has another id here, or would be downloaded
    and is not the ``requested`` one."""
    check_download(identity, requested, asker)
    name = named_encoder(identity)
    if name is None:
        if identity == DEFAULT_ENCODER or is_published(identity):
            return load_encoder(identity, device, keyframes, precision=precision)
        raise BasslError(
            f"{asker}: was trained on features called {identity!r}, which cannot be computed from keyframes here; "
            "name their store with `features`, or the ONNX file of that encoder with `encoder`"
        )
    encoder = load_encoder(name, device, keyframes, precision=precision_of(identity))
    if encoder.id == identity:
        return encoder
    centered = load_encoder(name, device, keyframes, "center", precision=precision_of(identity))
    if centered.id == identity:
        return centered
    raise BasslError(
        f"{asker}: was trained on features of {identity}, but {name} with {keyframes} keyframes per shot is "
        f"{encoder.id} here; train it on features of this encoder"
    )


def encoder_for(
    index: Index,
    encoder: str | Path | None = None,
    preparation: Preparation | None = None,
    *,
    asker: Path | None = None,
    requested: str | None = None,
) -> str:
    """Return the id of the encoder whose features are used for an index, for `pipelines.models.lookup.features_for`.

    ``encoder``: a model that has an encoder, or the name or id of an encoder. Default: the encoders of the features
    that the index names, or else the default encoder. ``preparation`` is as for :func:`load_encoder`. Raises BasslError
    if a named encoder cannot be loaded, or if the file ``asker`` names one to download that is not the ``requested``
    one."""
    if encoder is None and index.encoder:
        return index.encoder
    encoder = encoder or DEFAULT_ENCODER
    if isinstance(encoder, str) and encoder != DEFAULT_ENCODER and not is_published(encoder):
        return encoder
    if asker is not None and isinstance(encoder, str):
        check_download(encoder, requested, asker)
    return load_encoder(encoder, "cpu", index.keyframes or KEYFRAMES, preparation).id
