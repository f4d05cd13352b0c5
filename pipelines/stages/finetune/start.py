"""The start of fine-tuning: the pre-trained model, the parts of it that are used, and the sizes of the network."""

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
from pipelines.models.networks import Shape, make_shape
from pipelines.models.opening import MODEL, model_file, open_model
from pipelines.models.shapes import CRNSettings
from pipelines.stages.finetune.settings import FinetuneSettings

Transfer = Literal["none", "encoder", "encoder+crn"]
Report = Callable[[str], None]
"""Called with a line that the user should know."""


@dataclass(frozen=True, eq=False)
class Start:
    """The pre-trained model that fine-tuning starts from."""

    path: Path | None  # of the model; None for none
    weights: BasslWeights | None
    # what of it is kept: nothing, the features of its encoder (M6 of the paper), or its CRN too (M7)
    transfer: Transfer


def find_start(settings: FinetuneSettings, report: Report) -> Start:
    """The model that the settings name, and which parts of it are transferred. Raises BasslError where there is no such
    model, or it lacks a required part."""
    wanted = settings.transfer
    if settings.init == "none":
        if wanted is not None:
            raise BasslError(f"--transfer {wanted} needs a pre-trained model; name it with --init")
        return Start(None, None, "none")
    path, weights = _open_pretrained(settings, report)
    obstacle = _obstacle(settings, path, weights)
    if obstacle is None:
        return Start(path, weights, wanted or "encoder+crn")
    if wanted == "encoder+crn":
        raise BasslError(f"--transfer encoder+crn: {obstacle}; use --transfer encoder")
    if wanted is None:
        report(f"{obstacle}: the {settings.crn} starts from scratch (--transfer encoder)")
    return Start(path, weights, "encoder")


def _open_pretrained(settings: FinetuneSettings, report: Report) -> tuple[Path, BasslWeights]:
    """The file and the weights of the pre-trained model that the settings name."""
    path = last_pretrained(settings.output.parent) if settings.init == "last" else Path(settings.init)
    file = model_file(path)
    if not is_file(file):
        raise BasslError(
            f"{file}: no such model; name a run or a model file with --init, or start from scratch with --init none"
        )
    weights = open_model(file).weights
    if settings.init == "last":
        report(f"begins with {file}")
    return file, weights


def _obstacle(settings: FinetuneSettings, path: Path, weights: BasslWeights) -> str | None:
    """Why the CRN of a pre-trained model cannot be taken over; None where it can."""
    if weights.settings.crn is None:
        return f"{path} was pre-trained without a CRN"
    if settings.crn != "transformer":
        return f"pre-training makes a transformer, of which --crn {settings.crn} takes nothing"
    if settings.sound is not None:
        return f"the CRN of {path} reads no sound"
    return None


def last_pretrained(folder: Path) -> Path:
    """The newest pre-trained run in a folder of runs. Raises BasslError where there is none."""
    found: list[tuple[float, Path]] = []
    for path in folder.glob(f"*/{MODEL}"):
        try:
            opened = open_model(path)
        except BasslError:  # not a model of ours, or damaged: skipped
            continue
        training = opened.header.get("training")
        if opened.kind == KIND and isinstance(training, dict) and training.get("stage") == "pretrain":
            found.append((path.stat().st_mtime, path))
    if not found:
        raise BasslError(
            f"{folder}: holds no pre-trained run; make one with `bassl pretrain`, name a model with --init PATH, "
            "or start from scratch with --init none"
        )
    return max(found)[1]


def shape_for(settings: FinetuneSettings, start: Start, width: int) -> Shape:
    """The sizes of the network for features of ``width`` D_e: those of the CRN that is transferred, else of the
    settings, with the defaults of the kind of network for what they leave open. Raises BasslError where the settings
    and the CRN that is transferred contradict each other, or for sizes that no network can have."""
    crn = start.weights.settings.crn if start.weights is not None else None
    if start.transfer == "encoder+crn" and crn is not None:
        if crn.input_width != width:
            raise BasslError(
                f"{start.path}: its CRN reads encodings of width {crn.input_width}, and these have {width}"
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


def transfer_crn(start: Start, network: nn.Module) -> None:
    """Load the pre-trained CRN into a network, if it is transferred."""
    if start.transfer != "encoder+crn" or start.weights is None:
        return
    assert isinstance(network, TransformerBoundary)
    network.crn.load_state_dict(start.weights.crn)


def digest_of(start: Start) -> int:
    """A checksum of the CRN that is transferred, so that a run is resumed with the same; 0 for none."""
    if start.transfer != "encoder+crn" or start.weights is None:
        return 0
    digest = 0
    for name in sorted(start.weights.crn):
        digest = zlib.crc32(as_bytes(start.weights.crn[name]), zlib.crc32(name.encode(), digest))
    return digest


def as_bytes(tensor: Tensor) -> bytes:
    """The bytes of a tensor."""
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
