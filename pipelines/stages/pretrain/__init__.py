"""Self-supervised pre-training (section 3 and appendix A): windows of shots in, a model out.

From keyframes, the shot encoder is trained too. From features of a frozen encoder, only the CRN and the heads are
trained, which a CPU can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from annotated_doc import Doc

from pipelines.errors import explain_missing_extra
from pipelines.options import Settings, advanced, check_at_least, nested, resolve_settings
from pipelines.pretext import AugmentationSettings, PretextSettings, Variant
from pipelines.progress import TrainingProgress
from pipelines.settings import LARGEST_RATE, Compute, RunSettings, TrainingData

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import PretrainOptions


@dataclass(frozen=True)
class PretrainSettings(Settings):
    """Everything that decides a pre-training run. Values are the paper's (appendix A), or the release's."""

    data: TrainingData = nested(TrainingData(), defaults={"features": "none, it learns from keyframes"})
    compute: Compute = nested(Compute(workers=4))
    run: RunSettings = nested(RunSettings(Path("runs/pretrain")))
    pretext: PretextSettings = nested(PretextSettings())
    augmentation: AugmentationSettings = nested(AugmentationSettings(), advanced=True)
    neighbors: Annotated[int, Doc("K, shots on each side of the center (section 4.1).")] = 8
    epochs: Annotated[int, Doc("Passes over all shots (table 4c: 40 for the best result).")] = 10
    batch: Annotated[int, Doc("Windows in a step, over all processes.")] = 256
    micro_batch: Annotated[
        int | None,
        Doc("""Windows that a process encodes at a time; 0 is all. Default: as many as fit into the free memory.
        All windows of the batch stay each other's negatives; batch normalization sees only these."""),
    ] = advanced(None)
    encoder: Annotated[str, Doc("Encoder to train: resnet18 to resnet152, timm:NAME (paper: resnet50).")] = "resnet50"
    base_rate: Annotated[float, Doc("Learning rate at a batch of 256; it is scaled by batch / 256 (release).")] = 0.3
    momentum: Annotated[float, Doc("Momentum of LARS.")] = advanced(0.9)
    weight_decay: Annotated[float, Doc("Weight decay of LARS.")] = advanced(1e-6)
    trust: Annotated[float, Doc("Trust coefficient of LARS.")] = advanced(0.001)
    lars_exclude: Annotated[
        Variant,
        Doc("""Parameters that LARS neither adapts nor decays: release, those with bn or bias in their name, so
        that LayerNorm weights and the BN weights of a ResNet's shortcuts are adapted; paper, all biases and norms
        (appendix A)."""),
    ] = advanced("release")
    warm_up: Annotated[float, Doc("Share of the steps over which the learning rate rises.")] = advanced(0.1)
    width: Annotated[int, Doc("Width of the CRN, H.")] = advanced(768)
    layers: Annotated[int, Doc("Layers of the CRN, L.")] = advanced(2)
    heads: Annotated[int, Doc("Attention heads of the CRN, A.")] = advanced(8)
    dropout: Annotated[float, Doc("Dropout in the CRN.")] = advanced(0.1)
    save_minutes: Annotated[
        float,
        Doc("""Minutes from one saved state to the next within an epoch, at the next row of the log; 0 for none.
        The state is also saved after each epoch and at a signal."""),
    ] = advanced(15.0)
    validate_epochs: Annotated[
        int,
        Doc("Epochs from one validation, on the split val or else all labeled videos, to the next; 0 for none."),
    ] = advanced(1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "neighbors", "epochs", "width", "layers", "heads")
        check_at_least(self, 0, "micro_batch", "momentum", "weight_decay", "warm_up")
        check_at_least(self, 0, "save_minutes", "validate_epochs")
        check_at_least(self, 2, "batch")  # windows are compared with each other
        if not 0 < self.base_rate <= LARGEST_RATE or not 0 < self.trust <= LARGEST_RATE:
            raise ValueError(f"base_rate and trust must be above 0 and at most {LARGEST_RATE:g}")
        if not self.warm_up <= 1 or not 0 <= self.dropout < 1:
            raise ValueError("warm_up must be at most 1, and dropout in 0 to 1")
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} cannot be shared among {self.heads} attention heads")
        if self.data.features and self.pretext.method == "simclr-instance":
            raise ValueError("simclr-instance compares augmentations of a shot; features have none, use keyframes")
        if self.data.features and self.micro_batch:
            raise ValueError("micro_batch is for keyframes; with features no encoder runs")


@dataclass(frozen=True)
class PretrainResult:
    """Result of a run."""

    model: Path
    step: int  # steps done, out of ``steps``
    steps: int
    losses: dict[str, float]  # means over the last epoch that was begun, by task, and ``loss``
    validation: dict[str, float]  # the last measures
    stopped: bool  # whether it was asked to stop before its end; ``resume`` continues


@explain_missing_extra("pretrain")
def pretrain(
    settings: PretrainSettings | None = None,
    progress: Callable[[TrainingProgress], None] | None = None,
    **options: Unpack[PretrainOptions],
) -> PretrainResult:
    """Pre-train a model in this process, as `finetune` fine-tunes one; ``bassl pretrain`` starts several. Raises
    BasslError for unusable settings or data, or a folder that contains another run."""
    settings = resolve_settings(PretrainSettings, settings, options)
    from pipelines.stages.pretrain import task  # start-up time: torch

    return task.run(settings, progress or (lambda state: None))
