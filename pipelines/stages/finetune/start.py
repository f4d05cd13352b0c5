"""The pre-trained model that fine-tuning starts from: which parts are transferred, and the sizes of the network."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from pipelines.errors import BasslError
from pipelines.files import is_file
from pipelines.models.bassl import KIND, BasslWeights
from pipelines.models.crn import TransformerBoundary
from pipelines.models.networks import CRNSettings, Shape, make_shape
from pipelines.models.opening import MODEL, model_file, open_model
from pipelines.stages.finetune.settings import FinetuneSettings

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
    """The model that the settings name and the parts to transfer. Raises BasslError if the model is missing or lacks a
    required part."""
    transfer = settings.transfer
    if settings.init == "none":
        if transfer is not None:
            raise BasslError(f"--transfer {transfer} needs a pre-trained model; name it with --init")
        return PretrainedSource(None, None, "none")
    path, weights = _open_pretrained(settings, report)
    obstacle = _obstacle(settings, path, weights)
    if obstacle is None:
        return PretrainedSource(path, weights, transfer or "encoder+crn")
    if transfer == "encoder+crn":
        raise BasslError(f"--transfer encoder+crn: {obstacle}; use --transfer encoder")
    if transfer is None:
        report(f"{obstacle}: the {settings.crn} starts from scratch (--transfer encoder)")
    return PretrainedSource(path, weights, "encoder")


def _open_pretrained(settings: FinetuneSettings, report: Report) -> tuple[Path, BasslWeights]:
    """File and weights of the pre-trained model that the settings name."""
    path = last_pretrained(settings.run.output.parent) if settings.init == "last" else Path(settings.init)
    file = model_file(path)
    if not is_file(file):
        raise BasslError(
            f"{file}: no such model; name a run or a model file with --init, or start from scratch with --init none"
        )
    weights = open_model(file).weights
    if settings.init == "last":
        report(f"starts from {file}")
    return file, weights


def _obstacle(settings: FinetuneSettings, path: Path, weights: BasslWeights) -> str | None:
    """Why the CRN of a pre-trained model cannot be transferred; None if it can."""
    if weights.settings.crn is None:
        return f"{path} was pre-trained without a CRN"
    if settings.crn != "transformer":
        return "only --crn transformer can reuse a pre-trained CRN"
    if settings.sound is not None:
        return f"the CRN of {path} was trained without sound"
    return None


def last_pretrained(folder: Path) -> Path:
    """The newest pre-trained run in a folder of runs. Raises BasslError if there is none."""
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
            f"{folder}: contains no pre-trained run; make one with `bassl pretrain`, name a model with --init PATH, "
            "or start from scratch with --init none"
        )
    return max(runs)[1]


def shape_for(settings: FinetuneSettings, start: PretrainedSource, width: int) -> Shape:
    """The sizes of the network for features of ``width`` D_e: the transferred CRN's, else the settings', with the
    network's defaults for what they leave open. Raises BasslError if the settings contradict the transferred CRN, or
    for impossible sizes."""
    crn = start.weights.settings.crn if start.weights is not None else None
    if start.transfer == "encoder+crn" and crn is not None:
        if crn.input_width != width:
            raise BasslError(
                f"{start.path}: its CRN needs encodings of width {crn.input_width}, but these have {width}"
            )
        own = {"neighbours": crn.neighbors, "width": crn.width, "layers": crn.layers, "heads": crn.heads}
        for name, here in own.items():
            if getattr(settings, name) not in (getattr(FinetuneSettings, name), here):
                raise BasslError(
                    f"--{name} {getattr(settings, name)}: the CRN of {start.path} has {here}; "
                    "leave it out, or start the CRN from scratch with --transfer encoder"
                )
        if settings.dropout is None:
            return crn
        return CRNSettings(**{**vars(crn), "dropout": settings.dropout})
    try:
        sizes = {name: getattr(settings, name) for name in ("width", "dropout", "sequence", "layers", "heads")}
        return make_shape(settings.crn, width, neighbors=settings.neighbours, **sizes)
    except ValueError as error:
        raise BasslError(str(error)) from error


def transfer_crn(start: PretrainedSource, network: nn.Module) -> None:
    """Load the pre-trained CRN into a network, if it is to be transferred."""
    if start.transfer != "encoder+crn" or start.weights is None:
        return
    assert isinstance(network, TransformerBoundary)
    network.crn.load_state_dict(start.weights.crn)


def digest_of(start: PretrainedSource) -> int:
    """A checksum of the transferred CRN, so that a run is resumed with the same one; 0 if none is transferred."""
    if start.transfer != "encoder+crn" or start.weights is None:
        return 0
    digest = 0
    for name in sorted(start.weights.crn):
        digest = zlib.crc32(as_bytes(start.weights.crn[name]), zlib.crc32(name.encode(), digest))
    return digest


def as_bytes(tensor: Tensor) -> bytes:
    """The bytes of a tensor."""
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
