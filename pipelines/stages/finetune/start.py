"""What fine-tuning starts from: a pre-trained model, the sizes of the network, and the features of the videos."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from pipelines.errors import BasslError
from pipelines.files import is_file
from pipelines.models.bassl import BasslWeights
from pipelines.models.encoder_loading import encoder_for, encoder_of_id, features_for
from pipelines.models.encoders import named_encoder, precision_of
from pipelines.models.networks import CRNSettings, Shape, make_shape
from pipelines.models.opening import model_file, open_model
from pipelines.settings import Compute, Indexed, RunSettings
from pipelines.stages.encode import encode_shots
from pipelines.stages.finetune import FinetuneSettings
from pipelines.stages.models import list_models
from pipelines.stages.settings import EncodeSettings
from pipelines.stores.features import IndexedFeatures, features_of
from pipelines.stores.index import Index

Transfer = Literal["none", "encoder", "encoder+crn"]
Report = Callable[[str], None]  # called with a line for the user


@dataclass(frozen=True, eq=False)
class PretrainedSource:
    """The pre-trained model that fine-tuning starts from."""

    path: Path | None  # model file; None to start from scratch
    weights: BasslWeights | None
    transfer: Transfer  # nothing, the encoder's features (M6 in the paper), or also the CRN (M7)
    crn_digest: str | None = None  # of the file of a transferred CRN, so that a run is resumed with the same one

    @property
    def encoder_weights(self) -> Mapping[str, Tensor]:
        """Return the weights of its shot encoder; empty if it has none of its own."""
        return {} if self.weights is None else self.weights.encoder


def find_pretrained_source(settings: FinetuneSettings, report: Report) -> PretrainedSource:
    """Return the model in the settings and the parts to transfer. Raises BasslError if one is missing."""
    transfer = settings.transfer
    if settings.init == "none":
        if transfer is not None:
            raise BasslError(f"`transfer={transfer}` needs a pre-trained model; pass it with `init`")
        return PretrainedSource(None, None, "none")
    path = model_file(last_pretrained(settings.run.output.parent) if settings.init == "last" else Path(settings.init))
    if not is_file(path):
        raise BasslError(f"{path}: no such model; pass one with `init`, or start from scratch with `init=none`")
    opened = open_model(path)
    weights = opened.weights
    if settings.init == "last":
        report(f"starts from {path}")
    if weights.settings.crn is None:
        obstacle = f"{path} was pre-trained without a CRN"
    elif settings.crn != "transformer":
        obstacle = "only `crn=transformer` can reuse a pre-trained CRN"
    else:
        whole = transfer in (None, "encoder+crn")
        return PretrainedSource(path, weights, transfer or "encoder+crn", opened.digest if whole else None)
    if transfer == "encoder+crn":
        raise BasslError(f"`transfer=encoder+crn`: {obstacle}; use `transfer=encoder`")
    if transfer is None:
        report(f"{obstacle}: the {settings.crn} starts from scratch (`transfer=encoder`)")
    return PretrainedSource(path, weights, "encoder")


def last_pretrained(folder: Path) -> Path:
    """Return the newest pre-trained run in a folder of runs, not below them. Raises BasslError if there is none."""
    models = list_models(folder) if folder.is_dir() else []
    runs = [model.path for model in models if model.stage == "pre-trained" and model.path.parent == folder]
    if not runs:
        raise BasslError(f"{folder}: contains no pre-trained run; make one with `bassl pretrain`, or use `init=none`")
    return max(runs, key=lambda run: model_file(run).stat().st_mtime)


def shape_for(settings: FinetuneSettings, start: PretrainedSource, width: int) -> Shape:
    """Return the sizes of the network for features of ``width`` D_e: the transferred CRN's, else the settings', else
    the defaults. Raises BasslError for sizes that contradict the transferred CRN, or are impossible."""
    crn = start.weights.settings.crn if start.weights is not None else None
    if start.transfer == "encoder+crn" and crn is not None:
        if crn.input_width != width:
            raise BasslError(f"{start.path}: its CRN needs encodings of width {crn.input_width}, not {width}")
        sizes = {"neighbors": crn.neighbors, "width": crn.width, "layers": crn.layers, "heads": crn.heads}
        for name, size in sizes.items():
            if getattr(settings, name) not in (getattr(FinetuneSettings, name), size):
                other = f"the CRN of {start.path} has {size}; leave it out, or use `transfer=encoder`"
                raise BasslError(f"--{name} {getattr(settings, name)}: {other}")
        if settings.dropout is None:
            return crn
        return CRNSettings(**{**vars(crn), "dropout": settings.dropout})
    try:
        sizes = {name: getattr(settings, name) for name in ("width", "dropout", "sequence", "layers", "heads")}
        return make_shape(settings.crn, width, neighbors=settings.neighbors, **sizes)
    except ValueError as error:
        raise BasslError(str(error)) from error


def find_video_features(
    settings: FinetuneSettings, index: Index, videos: Sequence[int], start: PretrainedSource, report: Report
) -> IndexedFeatures:
    """Return the features of these videos: from the stores in the settings, else from the index or the feature folder,
    else computed now. Raises BasslError if that fails, or their encoder is not the pre-trained model's."""
    stores, own = settings.data.features, None
    name = start.weights.settings.encoder if start.weights is not None else None
    if start.encoder_weights:
        own = encoder_for(index, start.path, settings.preparation)
    if stores:
        stored, expected = features_of(index, stores, videos), own or name
        # A name alone stands for its published weights.
        fitting = {stored.encoder} if own else {stored.encoder, named_encoder(stored.encoder)}
        if start.weights is not None and expected not in fitting:
            remedy = "leave `features` out, set its `preparation` (center or squeeze), or use `init=none`"
            other = f"features of {stored.encoder}, but {start.path} was pre-trained with {expected}"
            raise BasslError(f"{', '.join(map(str, stores))}: {other}; {remedy}")
        return stored
    requested = settings.encoder
    encoder = own or encoder_for(index, name or requested, settings.preparation, asker=start.path, requested=requested)

    def compute() -> Path:
        source: str | Path | None = start.path
        preparation = settings.preparation
        if own is None:
            loaded = encoder_of_id(encoder, "cpu", index.keyframes, str(start.path or index.path), requested)
            source, preparation = loaded.name, loaded.preparation
        assert source is not None
        report(f"computes the features of the labeled videos once, into {settings.feature_folder}")
        encoding = EncodeSettings(
            Indexed(settings.data.index),
            source,
            RunSettings(settings.feature_folder),
            compute=Compute(settings.compute.device, settings.compute.workers or None),
            preparation=preparation,
            precision=precision_of(encoder),
        )
        return encode_shots(encoding, videos=videos)

    return features_for(index, videos, settings.feature_folder, encoder, compute=compute)
