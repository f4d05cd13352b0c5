"""Checkpoints of the paper's release into model files, and model files into the layout of the release."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import explain_missing_extra
from pipelines.files import check_output
from pipelines.models.opening import MODEL, model_file

if TYPE_CHECKING:  # optional dependency: torch
    from pipelines.models.bassl import BasslWeights


@explain_missing_extra("import_checkpoint")
def import_checkpoint(file: Path | str, output: Path | str | None = None, *, overwrite: bool = False) -> BasslWeights:
    """Write the model file of a checkpoint of the paper's authors, pre-trained or fine-tuned, or of a ResNet-50 such as
    the Places365 one; returns its weights. No code in it is run: a checkpoint that contains code is refused.
    The default of ``output`` is ``runs/NAME/model.safetensors``. Raises BasslError for a file that is not such a
    checkpoint, or an output that exists or cannot be written."""
    file = Path(file)
    output = model_path(file) if output is None else Path(output)
    check_output(output, (file,), overwrite)
    from pipelines.models import bassl, released  # optional dependency: torch

    weights = released.read_torchvision_resnet(file) or released.read_released(file)
    weights = replace(weights, training={"stage": "imported", "file": file.name})
    bassl.save_bassl_model(output, weights)
    return weights


@explain_missing_extra("export_checkpoint")
def export_checkpoint(file: Path | str, output: Path | str | None = None, *, overwrite: bool = False) -> BasslWeights:
    """Write a pre-trained model, its file or run folder, in the layout of the paper's release; its weights. The
    default of ``output`` is the name of the model with the extension ``.ckpt``. Raises BasslError for a model that does
    not fit the layout, or an output that exists or cannot be written."""
    file = Path(file)
    output = checkpoint_path(file) if output is None else Path(output)
    file = model_file(file)
    check_output(output, (file,), overwrite)
    from pipelines.models import bassl, released  # optional dependency: torch

    weights = bassl.load_bassl_model(file)
    released.write_released(output, weights)
    return weights


def model_path(checkpoint: Path) -> Path:
    """Return the default path of a checkpoint's model."""
    return Path("runs") / checkpoint.stem / MODEL


def checkpoint_path(model: Path) -> Path:
    """Return the default path of the checkpoint for a model file or run folder."""
    return model.with_suffix(".ckpt") if model.name else model / "model.ckpt"  # the folders . and / have no name
