"""The network that fine-tuning trains: its sizes, and the pre-trained weights that are loaded into it."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor, nn

from pipelines.errors import BasslError
from pipelines.models.crn import TransformerBoundary
from pipelines.models.networks import Shape, make_shape
from pipelines.models.shapes import CRNSettings
from pipelines.stages.finetune.settings import FinetuneSettings
from pipelines.stages.finetune.start import Start


def shape_for(settings: FinetuneSettings, start: Start, width: int) -> Shape:
    """The sizes of the network for features of ``width`` D_e: those of the CRN that is transferred, else of the
    settings, with the defaults of the kind of network for what they leave open. Raises BasslError where the settings
    and the CRN that is transferred contradict each other, or for sizes that are no network."""
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
    try:
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
