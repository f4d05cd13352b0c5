"""``bassl import-checkpoint``: convert a checkpoint of the paper's authors into a model file, or back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_doc import Doc

from bassl_cli import console
from bassl_cli.options import with_settings
from pipelines.options import Settings, nested
from pipelines.settings import OutputSettings
from pipelines.stages.import_checkpoint import (
    checkpoint_path,
    export_checkpoint,
    import_checkpoint as convert,
    model_path,
)

if TYPE_CHECKING:
    from pipelines.models.bassl import BasslWeights


@dataclass(frozen=True)
class Files(Settings):
    """What is read and written."""

    file: Annotated[Path, Doc("A released checkpoint (.ckpt); with --export a model that was pre-trained here.")]
    run: OutputSettings = nested(
        OutputSettings(), defaults={"output": "runs/NAME/model.safetensors; with --export FILE.ckpt"}
    )
    export: Annotated[bool, Doc("Write a pre-trained model in the layout of the paper's release instead.")] = False


@with_settings(arguments={"file"})
def import_checkpoint(files: Files, as_json: console.Json = False) -> None:
    """Read a checkpoint of the paper's authors, pre-trained or fine-tuned; or a ResNet-50.

    No code in the checkpoint is run; one whose reading would run code is refused.

    Example: bassl import-checkpoint bassl.ckpt -o runs/released/model.safetensors
    """
    output = files.run.output or (checkpoint_path if files.export else model_path)(files.file)
    weights = (export_checkpoint if files.export else convert)(files.file, output, overwrite=files.run.overwrite)
    if as_json:
        console.print_json(_summary(weights))
    else:
        rows = [(name, "none" if value is None else str(value)) for name, value in _summary(weights).items()]
        console.show_table(("", ""), rows, text=(0, 1))
    console.print_info(f"wrote {console.display_path(output)}")


def _summary(weights: BasslWeights) -> dict[str, str | int | None]:
    crn = weights.settings.crn
    tensors = [tensor for part in (weights.encoder, weights.crn, weights.heads) for tensor in part.values()]
    return {
        "stage": "fine-tuned" if weights.finetuned else "pre-trained",
        "encoder": weights.settings.encoder,
        "neighbors": None if crn is None else crn.neighbors,
        "heads": " ".join(name.removeprefix("head_") for name in weights.head_names),
        "numbers": sum(tensor.numel() for tensor in tensors),
    }
