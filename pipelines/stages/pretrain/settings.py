"""Settings and result of pre-training; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.options import Settings, check_at_least, nested, rare
from pipelines.pretext.settings import PretextSettings, Variant
from pipelines.settings import Compute, RunSettings, TrainingData
from pipelines.training.settings import LARGEST_RATE, AugmentationSettings


@dataclass(frozen=True)
class PretrainSettings(Settings):
    """Everything that decides a pre-training run. Values are the paper's (appendix A) unless stated otherwise."""

    data: TrainingData = nested(TrainingData(), defaults={"features": "none, it learns from keyframes"})
    """Videos to learn from; their labels are used for validation only. With features, the CRN and the heads are trained
    on a frozen encoder."""
    compute: Compute = nested(Compute(workers=4))
    run: RunSettings = nested(RunSettings(Path("runs/pretrain")))
    """Folder of the model, the state to resume from and the logs."""
    pretext: PretextSettings = nested(PretextSettings())
    """Method, tasks, pseudo-boundaries, temperature, masking rate."""
    augmentation: AugmentationSettings = nested(AugmentationSettings(), rare=True)
    """Augmentation of keyframes; its mean and deviation are those that the encoder expects."""
    neighbours: int = 8
    """K, shots on each side of the centre (section 4.1)."""
    epochs: int = 10
    """Passes over all shots (table 4c: 40 for the best result)."""
    batch: int = 256
    """Windows in a step, over all processes."""
    micro_batch: int | None = rare(None)
    """Windows that a process encodes at a time; 0 is all. Default: as many as fit into the free memory. All windows of
    the batch stay each other's negatives; batch normalization sees only these."""
    encoder: str = "resnet50"
    """Shot encoder to train: resnet18 to resnet152 or timm:NAME (section 4.1: resnet50)."""
    init: str | None = None
    """Initial weights: imagenet, or a model of an earlier run (its encoder and its CRN). Default: random ones."""
    freeze_encoder: bool = rare(False)
    """Do not train the encoder."""
    base_rate: float = 0.3
    """Learning rate at a batch of 256; it is scaled by batch / 256 (release)."""
    momentum: float = rare(0.9)
    """Momentum of LARS."""
    weight_decay: float = rare(1e-6)
    """Weight decay of LARS."""
    trust: float = rare(0.001)
    """Trust coefficient of LARS."""
    lars_exclude: Variant = rare("release")
    """Parameters that LARS neither adapts nor decays: release, those with bn or bias in their name, so that LayerNorm
    weights and the BN weights of a ResNet's shortcuts are adapted; paper, all biases and norms (appendix A)."""
    warm_up: float = rare(0.1)
    """Share of the steps over which the learning rate rises."""
    width: int = rare(768)
    """Width of the CRN, H."""
    layers: int = rare(2)
    """Layers of the CRN, L."""
    heads: int = rare(8)
    """Attention heads of the CRN, A."""
    dropout: float = rare(0.1)
    """Dropout in the CRN."""
    compile: bool = rare(False)
    """Compile the encoder and the CRN with torch.compile: minutes at the start, for faster steps."""
    decoded_size: int = rare(256)
    """Side of the square that keyframes are resized to before augmentation."""
    save_minutes: float = rare(15.0)
    """Minutes from one saved state to the next within an epoch, at the next row of the log; 0 for none. The state is
    also saved after each epoch and at a signal."""
    validate_split: str = rare("val")
    """Labelled videos to validate on; all labelled ones if this split has none."""
    validate_epochs: int = rare(1)
    """Epochs from one validation to the next; 0 for none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "neighbours", "epochs", "width", "layers", "heads", "decoded_size")
        check_at_least(self, 0, "micro_batch", "momentum", "weight_decay", "warm_up")
        check_at_least(self, 0, "save_minutes", "validate_epochs")
        if self.batch < 2:
            raise ValueError(
                f"batch must be at least 2, because windows are compared with each other, not {self.batch}"
            )
        if not 0 < self.base_rate <= LARGEST_RATE or not 0 < self.trust <= LARGEST_RATE:
            raise ValueError(f"base_rate and trust must be above 0 and at most {LARGEST_RATE:g}")
        if not self.warm_up <= 1 or not 0 <= self.dropout < 1:
            raise ValueError("warm_up must be at most 1, and dropout in 0 to 1")
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} cannot be shared among {self.heads} attention heads")
        if self.data.features and self.pretext.method == "simclr-instance":
            raise ValueError(
                "simclr-instance compares two augmentations of a shot, and features have none; use keyframes"
            )
        if self.data.features and (self.micro_batch or self.freeze_encoder):
            raise ValueError("micro_batch and freeze_encoder are for keyframes; with features no encoder runs")

    @property
    def peak_rate(self) -> float:
        """The highest learning rate: base rate times batch / 256."""
        return self.base_rate * self.batch / 256


@dataclass(frozen=True)
class PretrainResult:
    """Result of a run."""

    model: Path
    step: int  # steps done, out of ``steps``
    steps: int
    losses: dict[str, float]  # means over the last epoch that was begun, by task, and ``loss``
    validation: dict[str, float]  # the last measures
    stopped: bool  # whether it was asked to stop before its end; ``resume`` continues
