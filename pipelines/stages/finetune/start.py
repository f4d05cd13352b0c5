"""What fine-tuning starts from: a pre-trained model, the sizes of the network, and the features of the videos."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pipelines.errors import BasslError
from pipelines.files import is_file
from pipelines.models.bassl import KIND, BasslWeights
from pipelines.models.encoder_loading import encoder_for, encoder_of_id
from pipelines.models.encoders.options import is_published, named_encoder, precision_of
from pipelines.models.lookup import features_for
from pipelines.models.networks.crn import TransformerBoundary
from pipelines.models.networks.kinds import CRNSettings, Shape, make_shape
from pipelines.models.opening import MODEL, model_file, open_model
from pipelines.settings import Compute, Indexed, RunSettings
from pipelines.stages.encode import encode_share
from pipelines.stages.finetune.settings import FinetuneSettings
from pipelines.stages.settings import EncodeSettings
from pipelines.stores.features import ShotRows, features_of, keyframe_facts
from pipelines.stores.index import Index
from pipelines.training.distributed import Process

Transfer = Literal["none", "encoder", "encoder+crn"]
Report = Callable[[str], None]
"""Called with a line for the user."""


@dataclass(frozen=True, eq=False)
class PretrainedSource:
    """The pre-trained model that fine-tuning starts from."""

    path: Path | None  # model file; None to start from scratch
    weights: BasslWeights | None
    transfer: Transfer  # nothing, the encoder's features (M6 in the paper), or also the CRN (M7)


def find_pretrained_source(settings: FinetuneSettings, report: Report) -> PretrainedSource:
    """Return the model in the settings and the parts to transfer. Raises BasslError if the model or a required part is
    missing."""
    transfer = settings.transfer
    if settings.init == "none":
        if transfer is not None:
            raise BasslError(f"`transfer={transfer}` needs a pre-trained model; name it with `init`")
        return PretrainedSource(None, None, "none")
    path = model_file(last_pretrained(settings.run.output.parent) if settings.init == "last" else Path(settings.init))
    if not is_file(path):
        raise BasslError(
            f"{path}: no such model; name a run or a model file with `init`, or start from scratch with `init=none`"
        )
    weights = open_model(path).weights
    if settings.init == "last":
        report(f"starts from {path}")
    if weights.settings.crn is None:
        obstacle = f"{path} was pre-trained without a CRN"
    elif settings.crn != "transformer":
        obstacle = "only `crn=transformer` can reuse a pre-trained CRN"
    else:
        return PretrainedSource(path, weights, transfer or "encoder+crn")
    if transfer == "encoder+crn":
        raise BasslError(f"`transfer=encoder+crn`: {obstacle}; use `transfer=encoder`")
    if transfer is None:
        report(f"{obstacle}: the {settings.crn} starts from scratch (`transfer=encoder`)")
    return PretrainedSource(path, weights, "encoder")


def last_pretrained(folder: Path) -> Path:
    """Return the newest pre-trained run in a folder of runs. Raises BasslError if there is none."""
    runs: list[tuple[float, Path]] = []
    for path in folder.glob(f"*/{MODEL}"):
        try:
            opened = open_model(path)
        except BasslError:  # another program's file, or a damaged one
            continue
        training = opened.header.get("training")
        if opened.kind == KIND and isinstance(training, dict) and training.get("stage") == "pretrain":
            runs.append((path.stat().st_mtime, path))
    if not runs:
        raise BasslError(
            f"{folder}: contains no pre-trained run; make one with `bassl pretrain`, name a model with `init`, "
            "or start from scratch with `init=none`"
        )
    return max(runs)[1]


def shape_for(settings: FinetuneSettings, start: PretrainedSource, width: int) -> Shape:
    """Return the sizes of the network for features of ``width`` D_e: the transferred CRN's, else the settings', else
    the network's defaults. Raises BasslError if the settings contradict the transferred CRN, or for impossible
    sizes."""
    crn = start.weights.settings.crn if start.weights is not None else None
    if start.transfer == "encoder+crn" and crn is not None:
        if crn.input_width != width:
            raise BasslError(
                f"{start.path}: its CRN needs encodings of width {crn.input_width}, but these have {width}"
            )
        sizes = {"neighbors": crn.neighbors, "width": crn.width, "layers": crn.layers, "heads": crn.heads}
        for name, size in sizes.items():
            if getattr(settings, name) not in (getattr(FinetuneSettings, name), size):
                raise BasslError(
                    f"--{name} {getattr(settings, name)}: the CRN of {start.path} has {size}; "
                    "leave it out, or start the CRN from scratch with `transfer=encoder`"
                )
        if settings.dropout is None:
            return crn
        return CRNSettings(**{**vars(crn), "dropout": settings.dropout})
    try:
        sizes = {name: getattr(settings, name) for name in ("width", "dropout", "sequence", "layers", "heads")}
        return make_shape(settings.crn, width, neighbors=settings.neighbors, **sizes)
    except ValueError as error:
        raise BasslError(str(error)) from error


def transfer_crn(start: PretrainedSource, network: nn.Module) -> None:
    """Load the pre-trained CRN into a network, if it is to be transferred."""
    if start.transfer != "encoder+crn" or start.weights is None:
        return
    assert isinstance(network, TransformerBoundary)
    network.crn.load_state_dict(start.weights.crn)


def digest_of(start: PretrainedSource) -> int:
    """Return a checksum of the transferred CRN, so that a run is resumed with the same one; 0 if none is
    transferred."""
    if start.transfer != "encoder+crn" or start.weights is None:
        return 0
    digest = 0
    for name in sorted(start.weights.crn):
        values = start.weights.crn[name].detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
        digest = zlib.crc32(values.tobytes(), zlib.crc32(name.encode(), digest))
    return digest


# --- features ---------------------------------------------------------------------------------------------------------


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
    color: ShotRows | None


def find_encoding(
    settings: FinetuneSettings,
    index: Index,
    videos: Sequence[int],
    start: PretrainedSource,
    process: Process,
    report: Report,
) -> Encoding:
    """Return the features of these videos: from the stores in the settings, else from the index or the feature folder,
    else computed now. Raises BasslError if they cannot be computed, or are of another encoder than the pre-trained
    model's.
    """
    encoder = _own_encoder(start, index, settings)
    if settings.data.features:
        stored = features_of(index, settings.data.features, videos)
        _check_encoder(stored.encoder, start, encoder, settings.data.features)
        encoder = encoder or FrozenEncoder(stored.encoder, named_encoder(stored.encoder))
        return Encoding(stored.features, encoder, stored.color)
    if encoder is None:
        name = (start.weights.settings.encoder if start.weights is not None else None) or settings.encoder
        identity = encoder_for(index, name, settings.preparation, asker=start.path, requested=settings.encoder)
        encoder = FrozenEncoder(identity, name if name and is_published(name) else named_encoder(identity))

    def compute() -> Path:
        source: str | Path | None = start.path
        preparation = settings.preparation
        if not encoder.weights:
            asker = str(start.path or index.path)
            loaded = encoder_of_id(encoder.id, "cpu", index.keyframes, asker, settings.encoder)
            source, preparation = encoder.name, loaded.preparation
        assert source is not None
        report(f"computes the features of the labeled videos once, into {settings.feature_folder}")
        encoding = EncodeSettings(
            Indexed(settings.data.index),
            source,
            RunSettings(settings.feature_folder),
            compute=Compute(settings.compute.device, settings.compute.workers or None),
            preparation=preparation,
            precision=precision_of(encoder.id),
        )
        return encode_share(encoding, str(process.device), process, videos)

    stored = features_for(index, videos, settings.feature_folder, encoder.id, compute=compute)
    return Encoding(stored.features, encoder, stored.color)


def known_keyframe_facts(index: Index) -> Mapping[str, Any]:
    try:
        return keyframe_facts(index)
    except BasslError:  # features without their keyframes are enough to learn from
        return {}


def _own_encoder(start: PretrainedSource, index: Index, settings: FinetuneSettings) -> FrozenEncoder | None:
    """Return the encoder in the pre-trained model, if it has its own."""
    if start.weights is None or not start.weights.encoder or start.path is None:
        return None
    identity = encoder_for(index, start.path, settings.preparation)
    return FrozenEncoder(identity, start.weights.settings.encoder, start.weights.encoder, start.weights.input_size)


def _check_encoder(stored: str, start: PretrainedSource, encoder: FrozenEncoder | None, stores: Sequence[Path]) -> None:
    """Check that features are of the encoder that the pre-trained model has or learned from."""
    if start.weights is None:
        return
    expected = start.weights.settings.encoder if encoder is None else encoder.id
    # A name alone stands for its published weights.
    if stored == expected or (encoder is None and expected is not None and named_encoder(stored) == expected):
        return
    raise BasslError(
        f"{', '.join(map(str, stores))}: features of {stored}, but {start.path} was pre-trained with {expected}; "
        "leave `features` out, name its `preparation` (center or squeeze), or start from scratch with `init=none`"
    )
