"""Opening any path to a model: the built-in model, a run folder or a model file.

Opening reads only the header of the file, without torch; weights are read when they are needed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pipelines.errors import StoreError
from pipelines.models.checkpoints import read_model_header, settings_fit

if TYPE_CHECKING:  # optional dependency: torch
    from pipelines.models.bassl import BasslWeights
    from pipelines.models.boundary import BoundaryModel

BUILT_IN = Path(__file__).parent / "data" / "relational.safetensors"  # the model in the package
DEFAULT = "default"  # its name in place of a path, unless there is a file of that name
MODEL, STATE = "model.safetensors", "state.pt"  # in a run folder: the model, and the state to resume from


@dataclass(frozen=True)
class KeyframeFacts:
    """How the keyframes were made that a model was trained on, see `pipelines.stores.index.Index`."""

    detector: str | None = None
    detector_threshold: float | None = None
    min_shot: float | None = None
    keyframes: int | None = None  # per shot
    lines: int | None = None
    quality: int | None = None


@dataclass(frozen=True, eq=False)
class OpenedModel:
    """A model on disk."""

    path: Path  # the path that was opened
    file: Path  # the file with the weights
    kind: str  # ``boundary`` (fine-tuned, or the built-in model) or ``bassl`` (the paper's, pre-trained or imported)
    header: Mapping[str, Any]  # settings in the file's header, plain JSON values

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
        """Return its `KeyframeFacts`. Raises StoreError for facts with a wrong type."""
        with settings_fit(self.file):
            facts = {**self.header.get("pictures", {}), "keyframes": self.header.get("keyframes")}
            return asdict(msgspec.convert(facts, KeyframeFacts))

    @property
    def has_weights(self) -> bool:
        """Return whether it has `weights`."""
        return self.kind == "bassl"

    @cached_property
    def weights(self) -> BasslWeights:
        """Return the paper's model. Raises StoreError for a model of another kind or a damaged file."""
        from pipelines.models.bassl import load_bassl_model  # optional dependency: torch

        return load_bassl_model(self.file)

    def boundary_model(self, *, pseudo: bool = False) -> BoundaryModel:
        """Return the model as a `BoundaryModel`, by its head for scene ends, or if ``pseudo`` by a pre-trained one's
        head for pseudo-boundaries (section 3.3). Raises StoreError for a damaged file, or a model without this head."""
        if not self.has_weights:
            from pipelines.models.boundary import load_boundary_model  # start-up time: OpenBLAS

            return load_boundary_model(self.file)
        head = "head_pp" if pseudo else "head_sbd"
        if self.weights.settings.crn is None or f"{head}.weight" not in self.weights.heads:
            raise StoreError(
                f"{self.file}: is pre-trained only and cannot score videos; run `bassl finetune` with "
                f"`init={self.file}`, or score its features with `representation`"
            )
        from pipelines.models.bassl import boundary_of_weights  # optional dependency: torch

        return boundary_of_weights(self.file, self.weights, head)


def model_file(path: Path) -> Path:
    """Return the model file of a run folder, or the path itself; it may not exist."""
    return path / MODEL if os.path.isdir(path) else path  # noqa: PTH112  # also for invalid names


def open_model(path: Path | str | None = None) -> OpenedModel:
    """Open the model at a path, a run folder or a model file, or ``default``, without reading its weights. Raises
    StoreError for a path without a model, or a file that is not a model."""
    if path is None or (str(path) == DEFAULT and not Path(path).exists()):
        path = BUILT_IN
    path = Path(path)
    file = model_file(path)
    if not os.path.lexists(file):
        advice = f"check the path, or use {DEFAULT!r} for the built-in model"
        if file != path and (path / STATE).exists():
            advice = "its run is unfinished; continue with `resume=True`"
        raise StoreError(f"{file}: no such run or model; {advice}")
    return OpenedModel(path, file, *read_model_header(file))
