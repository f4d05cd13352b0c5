"""Opening any path to a model: the built-in model, a run folder, a model file, or a checkpoint of the paper's release.

Opening reads only the header of the file, without torch; weights are read when they are needed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import StoreError
from pipelines.files import check_regular, os_errors
from pipelines.models.checkpoints import read_model_header

if TYPE_CHECKING:  # optional dependency: torch
    from pipelines.models.bassl import BasslWeights
    from pipelines.models.boundary import BoundaryModel

BUILT_IN = Path(__file__).parent / "data" / "relational.safetensors"  # the model in the package
DEFAULT = "default"  # its name in place of a path, unless there is a file of that name
MODEL, STATE = "model.safetensors", "state.pt"  # in a run folder: the model, and the state to resume from
RELEASED = "released"  # kind of a checkpoint of the paper's release: a zip archive without a bassl header


@dataclass(frozen=True, eq=False)
class OpenedModel:
    """A model on disk."""

    path: Path  # the path that was opened
    file: Path  # the file with the weights
    # ``boundary`` (fine-tuned, or the built-in model), ``bassl`` (the paper's model, pre-trained or fine-tuned) or
    # ``released`` (a checkpoint of the paper's release); anything else for a foreign file
    kind: str
    header: Mapping[str, Any] = field(default_factory=dict)  # settings in the file's header, plain JSON values

    @property
    def built_in(self) -> bool:
        """Return whether it is the model in the package."""
        return self.file == BUILT_IN

    @cached_property
    def digest(self) -> str:
        """Return the first 12 hexadecimal digits of the file's SHA-256."""
        return hashlib.sha256(self.file.read_bytes()).hexdigest()[:12]

    @property
    def keyframe_facts(self) -> dict[str, Any]:
        """Return how its training keyframes were made, see `pipelines.stores.index.Index`, and
        ``keyframes``, their number per shot. Raises StoreError for facts with a wrong type."""
        facts, kinds = self.header.get("pictures", {}), {"lines": int, "quality": int, "detector": str}
        keyframes = self.header.get("keyframes")
        if (
            not isinstance(facts, dict)
            or not isinstance(keyframes, int | None)
            or not all(isinstance(facts.get(name), kind | None) for name, kind in kinds.items())
        ):
            raise StoreError(
                f"{self.file}: does not say how its keyframes were made: {facts}; train or download the model again"
            )
        return facts | {"keyframes": keyframes}

    @property
    def has_weights(self) -> bool:
        """Return whether it has `weights`."""
        return self.kind in ("bassl", RELEASED)

    @property
    def has_encoder(self) -> bool:
        """Return whether `weights` include a shot encoder. Raises StoreError for a damaged file."""
        return self.has_weights and bool(self.weights.encoder)

    @cached_property
    def weights(self) -> BasslWeights:
        """Return shot encoder, CRN and heads of the paper's model. Raises StoreError for a model of another kind or a
        damaged file."""
        from pipelines.models import bassl, released  # optional dependency: torch

        return released.read_released(self.file) if self.kind == RELEASED else bassl.load_bassl_model(self.file)

    @property
    def pretrained_only(self) -> bool:
        """Return whether it is pre-trained and has no head for scene ends."""
        return self.has_weights and not self.weights.finetuned

    def boundary_model(self) -> BoundaryModel:
        """Return the model as a `BoundaryModel`, which scores videos. Raises StoreError for a damaged file, or a model
        that is pre-trained only."""
        if not self.has_weights:
            from pipelines.models.boundary import load_boundary_model  # start-up time: OpenBLAS

            return load_boundary_model(self.file)
        if self.pretrained_only or self.weights.settings.crn is None:
            raise StoreError(
                f"{self.file}: is pre-trained only and cannot score videos; run `bassl finetune` with "
                f"`init={self.file}`"
            )
        return self._by_head("head_sbd")

    def pseudo_boundary_model(self) -> BoundaryModel:
        """Return a pre-trained model as a `BoundaryModel` that scores videos by its head for pseudo-boundaries (section
        3.3) instead of one for scene ends. Raises StoreError for a damaged file, or a model without a CRN or this
        head."""
        if self.weights.settings.crn is None or "head_pp.weight" not in self.weights.heads:
            raise StoreError(
                f"{self.file}: is pre-trained without pseudo-boundary prediction and has no head that scores videos; "
                "run `bassl finetune`, or score its features with `representation` and their store"
            )
        return self._by_head("head_pp")

    def _by_head(self, head: str) -> BoundaryModel:
        from pipelines.models.bassl import boundary_of_weights  # optional dependency: torch

        encoder, input_size = self._encoder()
        return boundary_of_weights(self.file, self.weights, encoder=encoder, input_size=input_size, head=head)

    def _encoder(self) -> tuple[str | None, int | None]:
        """Return the id and input size of the shot encoder in the file, or else the id or name of the encoder that it
        was trained with, and None."""
        name = self.weights.settings.encoder
        if name is None or not self.weights.encoder:
            return name, None
        from pipelines.models.encoders.torch_encoders import encoder_in_file  # optional dependency: torch

        encoder = encoder_in_file(self.file, name, self.weights.encoder, "cpu", size=self.weights.input_size)
        return encoder.id, encoder.size


def model_file(path: Path) -> Path:
    """Return the model file of a run folder, or the path itself; it may not exist."""
    return path / MODEL if os.path.isdir(path) else path  # noqa: PTH112  # also for invalid names


def open_model(path: Path | str | None = None) -> OpenedModel:
    """Open the model at a path, without reading its weights.

    `path`: a run folder, a model file or a checkpoint of the paper's release. Default: the built-in model, whose
        name is ``default``.
    Raises StoreError for a path without a model, or a file that is not a model.
    """
    if path is None or (str(path) == DEFAULT and not Path(path).exists()):
        path = BUILT_IN
    path = Path(path)
    file = model_file(path)
    if not os.path.lexists(path):
        raise StoreError(f"{path}: no such run or model; check the path, or use {DEFAULT!r} for the built-in model")
    if not os.path.lexists(file):
        unfinished = file != path and (path / STATE).exists()
        advice = "its run is unfinished; continue with `resume=True`" if unfinished else "check the path"
        raise StoreError(f"{file}: no such model file; {advice}")
    check_regular(file, kind=StoreError)
    with os_errors(file, kind=StoreError), file.open("rb") as opened:
        is_zip = opened.read(4) == b"PK\x03\x04"
    if is_zip:
        return OpenedModel(path, file, RELEASED)
    return OpenedModel(path, file, *read_model_header(file))
