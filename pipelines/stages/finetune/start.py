"""Where fine-tuning begins: which model, what of it is kept, and the features of which encoder it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pipelines.errors import BasslError
from pipelines.models.bassl import KIND, BasslWeights
from pipelines.models.encoders import DEFAULT_ENCODER, INPUT_SIZE, RESNETS, encoder_of_id, load_encoder, named_encoder
from pipelines.models.networks import Shape, make_shape
from pipelines.models.opening import MODEL, open_model
from pipelines.models.shapes import CRNSettings
from pipelines.stores.features import features_of
from pipelines.stores.index import Index
from pipelines.stores.lookup import find_features, keyframe_facts
from pipelines.training.distributed import Place

if TYPE_CHECKING:
    from pipelines.stages.finetune import FinetuneSettings

Transfer = Literal["none", "encoder", "encoder+crn"]
Report = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Start:
    """What fine-tuning begins with.

    Attributes:
        path: of the model; None for none.
        weights: of the model.
        transfer: what of it is kept: nothing, the features of its encoder (M6 of the paper), or its CRN too (M7).
    """

    path: Path | None
    weights: BasslWeights | None
    transfer: Transfer


@dataclass(frozen=True, eq=False)
class Encoding:
    """The features that a network learns from, and what a model must remember of them.

    Attributes:
        features: (T, D_e) in the rows of the index, perhaps mapped from a file.
        encoder: id.
        name, weights, keyframes, input_size: as `BoundaryModel` has them.
        pictures: how the key-frames were made.
        stores: the files that the features are from.
    """

    features: NDArray[np.floating[Any]]
    encoder: str
    name: str | None
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    keyframes: int | None = None
    input_size: int | None = None
    pictures: Mapping[str, Any] = field(default_factory=dict)
    stores: tuple[Path, ...] = ()


def find_start(settings: FinetuneSettings, tell: Report) -> Start:
    """The model that the settings name, and what of it goes into the new one.

    Raises:
        BasslError: one line, where there is no such model, or it has no part that is asked for.
    """
    wanted = settings.transfer
    if settings.init == "none":
        if wanted is not None:
            raise BasslError(f"--transfer {wanted} needs a pre-trained model; name it with --init")
        return Start(None, None, "none")
    path = last_pretrained(settings.output.parent) if settings.init == "last" else Path(settings.init)
    file = path / MODEL if path.is_dir() else path
    if not file.exists():
        raise BasslError(
            f"{file}: no such model; name a run or a model file with --init, or begin anew with --init none"
        )
    opened = open_model(path)
    path, weights = opened.file, opened.weights
    if settings.init == "last":
        tell(f"begins with {path}")
    has_crn = weights.settings.crn is not None
    if wanted == "encoder+crn" and settings.crn != "transformer":
        raise BasslError(
            f"--transfer encoder+crn: pre-training makes a transformer, and --crn {settings.crn} takes nothing of it; "
            "use --transfer encoder"
        )
    if wanted == "encoder+crn" and not has_crn:
        raise BasslError(f"{path}: was pre-trained without a CRN; use --transfer encoder")
    if wanted is None and settings.crn == "transformer" and not has_crn:
        tell(f"{path} was pre-trained without a CRN; the CRN begins anew (--transfer encoder)")
    elif wanted is None and settings.crn != "transformer" and has_crn:
        tell(f"pre-training makes a transformer: the {settings.crn} begins anew (--transfer encoder)")
    default: Transfer = "encoder+crn" if settings.crn == "transformer" and has_crn else "encoder"
    return Start(path, weights, wanted or default)


def last_pretrained(folder: Path) -> Path:
    """The newest pre-trained run in a folder of runs.

    Raises:
        BasslError: one line, where there is none.
    """
    found: list[tuple[float, Path]] = []
    for path in folder.glob(f"*/{MODEL}"):
        try:
            opened = open_model(path)
        except BasslError:  # another's file, or one that is damaged: not the run that is looked for
            continue
        training = opened.header.get("training")
        if opened.kind == KIND and isinstance(training, dict) and training.get("stage") == "pretrain":
            found.append((path.stat().st_mtime, path))
    if not found:
        raise BasslError(
            f"{folder}: holds no pre-trained run; make one with `bassl pretrain`, name a model with --init PATH, "
            "or begin anew with --init none"
        )
    return max(found)[1]


def find_encoding(settings: FinetuneSettings, index: Index, start: Start, place: Place, tell: Report) -> Encoding:
    """The features to learn from: of the stores that are named, of the index, or computed now and kept.

    Raises:
        BasslError: one line, where they are not there and cannot be made, or do not belong to the model to begin with.
    """
    own = start.weights.settings.encoder if start.weights is not None else None
    embedded = start.weights.encoder if start.weights is not None else {}
    if settings.features:
        encoder, features = features_of(index, settings.features)
        known = named_encoder(encoder)
        if start.weights is not None:
            keyframes = index.keyframes or 3
            identity = load_encoder(start.path, "cpu", keyframes).id if embedded and start.path else own
            # A name alone stands for weights that are known by it.
            if encoder != identity and not (not embedded and known is not None and known == own):
                raise BasslError(
                    f"{', '.join(map(str, settings.features))}: features of {encoder}, and {start.path} was "
                    f"pre-trained with {identity}; leave --features out, or begin anew with --init none"
                )
        return Encoding(
            features,
            encoder,
            own if embedded else known,
            embedded,
            index.keyframes or None,
            _input_size(start) if embedded else None,
            pictures_of(index),
            settings.features,
        )
    source: str | Path
    if start.weights is not None and embedded and start.path is not None:
        source = start.path
        encoder, name, size = load_encoder(start.path, "cpu", index.keyframes or 3).id, own, _input_size(start)
    else:
        wanted = own or settings.encoder
        if wanted is None and len(index.features) > 1:
            there = ", ".join(sorted(index.features))
            raise BasslError(f"{index.path}: has features of several encoders ({there}); name a store with --features")
        wanted = wanted or next(iter(index.features), DEFAULT_ENCODER)
        source, name, size, encoder = wanted, named_encoder(wanted), None, wanted
        if wanted == DEFAULT_ENCODER or wanted in RESNETS or wanted.startswith("timm:"):
            name = wanted
            encoder = load_encoder(wanted, "cpu", index.keyframes or 3).id
    stores = find_features(index, encoder, settings.feature_folder)
    if not stores:
        if isinstance(source, str) and name is not None and source != name:  # an id
            encoder_of_id(source, "cpu", index.keyframes or 3, str(start.path or index.path))
            source = name
        if name is None:
            raise BasslError(
                f"{index.path}: has no features of {encoder}, and they cannot be computed here; "
                "name their store with --features"
            )
        stores = (_encode(settings, source, place, tell),)
    return Encoding(
        features_of(index, stores)[1],
        encoder,
        name,
        embedded,
        index.keyframes or None,
        size,
        pictures_of(index),
        stores,
    )


def _encode(settings: FinetuneSettings, source: str | Path, place: Place, tell: Report) -> Path:
    from pipelines.stages.encode import EncodeSettings, encode_shots

    tell(f"computes the features of all shots once, into {settings.feature_folder}")
    workers = settings.workers or None
    return encode_shots(
        EncodeSettings(settings.index, source, settings.feature_folder, workers=workers, device=settings.device),
        place=place,
    )


def _input_size(start: Start) -> int:
    assert start.weights is not None
    augmentation = start.weights.training.get("augmentation")
    return int(augmentation.get("size", INPUT_SIZE)) if isinstance(augmentation, dict) else INPUT_SIZE


def pictures_of(index: Index) -> Mapping[str, Any]:
    """How the key-frames of an index were made; empty where they are not there any more."""
    try:
        return keyframe_facts(index)
    except BasslError:  # features without their key-frames are enough to learn from
        return {}


def shape_for(settings: FinetuneSettings, start: Start, width: int) -> Shape:
    """The shape of the network: that of the CRN that is transferred, or what the settings say.

    Args:
        settings: where they leave a size open, it is that of the network's source.
        start: what is transferred.
        width: D_e.

    Raises:
        BasslError: one line, where the settings and the CRN that is transferred contradict each other.
        ValueError: one line, for sizes that are no network.
    """
    crn = start.weights.settings.crn if start.weights is not None else None
    if start.transfer == "encoder+crn" and crn is not None:
        if crn.input_width != width:
            raise BasslError(
                f"{start.path}: its CRN reads encodings of width {crn.input_width}, and these have {width}"
            )
        for name, here in (("neighbours", crn.neighbors), ("width", crn.width)):
            if getattr(settings, name) not in (None, here):
                raise BasslError(
                    f"--{name} {getattr(settings, name)}: the CRN of {start.path} has {here}; "
                    "leave it out, or begin anew with --transfer encoder"
                )
        if settings.dropout is None:
            return crn
        return CRNSettings(**{**vars(crn), "dropout": settings.dropout})
    return make_shape(
        settings.crn,
        width,
        neighbors=settings.neighbours,
        width=settings.width,
        dropout=settings.dropout,
        sequence=settings.sequence,
        layers=settings.layers,
        heads=settings.heads,
    )
