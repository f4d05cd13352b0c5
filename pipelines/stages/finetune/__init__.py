"""Fine-tuning (section 3.4 and appendix A): labeled videos in, a model that scores scene ends out.

The shot encoder is frozen, so its features are computed once. A contextual relation network (CRN) and its head are
trained on them, once for each seed. The epoch is chosen on the validation split; on MovieNet it is the last one, as in
the release. The result has the metrics of the release: a shot is a scene end if softmax gives it at least one half. The
model files also contain a calibration, fitted on the validation split, that moves a score of 0.5 to the best F1; the
result lists F1 and mIoU at that point as ``f1_calibrated`` and ``miou_calibrated``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from annotated_doc import Doc

from pipelines.errors import explain_missing_extra
from pipelines.models.networks import CRN
from pipelines.options import Settings, advanced, check_at_least, nested, resolve_settings
from pipelines.progress import TrainingProgress
from pipelines.settings import LARGEST_RATE, Compute, RunSettings, TrainingData

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import FinetuneOptions


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of a run; by default the paper's."""

    epochs: int = 20  # passes over all labeled shots (appendix A)
    batch: int = 1024  # examples in a step (appendix A)
    rate: float | None = None  # learning rate; None: 2.5e-6 x batch / 256 for a transferred CRN, or ten times that
    weight_decay: float = 0.0  # above 0 the optimizer is AdamW, else Adam
    warm_up: float = 0.0  # share of the steps over which the rate rises (appendix A: none); then it falls as a cosine
    clip: float | None = None  # greatest norm of the gradient


RELATIONAL = Hyperparameters(batch=128, rate=2e-3, weight_decay=1.0, warm_up=0.05, clip=1.0)  # the built-in model's


@dataclass(frozen=True)
class FinetuneSettings(Settings):
    """Everything that decides a fine-tuning run. Values are the paper's (appendix A) unless stated otherwise."""

    data: TrainingData = nested(TrainingData(splits=("train",)))
    run: RunSettings = nested(RunSettings(Path("runs/finetune")))
    init: Annotated[
        str,
        Doc("""Pre-trained model to start from: last (the newest pre-trained run beside the output folder), a run
        folder, a model file (an imported checkpoint too), or none."""),
    ] = "last"
    transfer: Annotated[
        Literal["encoder", "encoder+crn"] | None,
        Doc("What to transfer from it: encoder (the paper's M6) or encoder+crn (M7). Default: all that fits."),
    ] = None
    encoder: Annotated[
        str | None,
        Doc("""Shot encoder if there is no pre-trained one: efficientnet_lite0, resnet50, timm:NAME. Default: the
        encoder of the index's features, or efficientnet_lite0."""),
    ] = None
    preparation: Annotated[
        Literal["center", "squeeze"] | None,
        Doc("""How a keyframe becomes the input of the encoder: center or squeeze, see bassl encode. Default:
        center for a pre-trained one (release), squeeze for others."""),
    ] = advanced(None)
    feature_folder: Annotated[Path, Doc("Folder of feature stores computed here.")] = advanced(Path("data/features"))
    compute: Compute = nested(Compute(workers=4, precision="float32"))
    crn: Annotated[CRN, Doc("Network that reads the shots' features in their context.")] = "transformer"
    select: Annotated[
        Literal["val", "last"] | None,
        Doc("""The epoch to take: val, the best on the split val, or last, as the release does. Default: last for an
        index of MovieNet, else val."""),
    ] = None
    loss: Annotated[
        Literal["balanced", "plain"],
        Doc("""Cross-entropy: balanced, the positives and negatives of a batch weighted to equal total weight
        (release), or plain (paper)."""),
    ] = advanced("balanced")
    seeds: Annotated[int, Doc("Training runs with different seeds (section 4.1), for a mean and a deviation.")] = 5
    epochs: Annotated[int | None, Doc("Passes over all labeled shots. Default: 20.")] = None
    batch: Annotated[int | None, Doc("Examples in a step, over all processes. Default: 1024; relational 128.")] = None
    rate: Annotated[
        float | None,
        Doc("""Highest learning rate. Default: 2.5e-6 x batch / 256 for a transferred CRN, ten times that for a new
        one; relational 2e-3."""),
    ] = None
    neighbors: Annotated[int | None, Doc("K, shots on each side. Default: 8; ms-lstm 2; a transferred CRN's.")] = None
    width: Annotated[
        int | None,
        Doc("Width of a new network. Default: transformer 768; mlp 4096; ms-lstm 512."),
    ] = advanced(None)
    layers: Annotated[int, Doc("Layers of a new transformer.")] = advanced(2)
    heads: Annotated[int, Doc("Attention heads of a new transformer.")] = advanced(8)
    dropout: Annotated[float | None, Doc("Dropout. Default: transformer 0.1; mlp, relational 0.5.")] = advanced(None)
    sequence: Annotated[int, Doc("T, consecutive shots that the ms-lstm reads.")] = advanced(10)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "seeds", "epochs", "batch", "neighbors", "width", "layers", "heads", "sequence")
        if self.rate is not None and not 0 < self.rate <= LARGEST_RATE:
            raise ValueError(f"rate must be above 0 and at most {LARGEST_RATE:g}, not {self.rate}")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in 0 to 1, not {self.dropout}")

    def hyperparameters(self, transferred: bool) -> Hyperparameters:
        """Return the defaults of the kind of network, or of a ``transferred`` CRN, overridden by these settings."""
        defaults = RELATIONAL if self.crn == "relational" else Hyperparameters()
        epochs, batch = self.epochs or defaults.epochs, self.batch or defaults.batch
        scaled = 2.5e-6 * batch / 256 * (1 if transferred else 10)
        return replace(defaults, epochs=epochs, batch=batch, rate=self.rate or defaults.rate or scaled)


@dataclass(frozen=True)
class FinetuneResult:
    """Result of a run."""

    model: Path  # the chosen seed's model
    report: Path  # all measures of all seeds
    step: int  # steps done, out of ``steps``
    steps: int
    selected_on: str  # what epochs were chosen on: ``val`` or ``last epoch``
    mean: dict[str, float]  # of metrics over the seeds
    std: dict[str, float]  # their sample deviations; empty for one seed
    seeds: int  # that ``mean`` and ``std`` are of
    tested_on: str | None  # ``test`` or ``validation``, whose metrics these are, or None
    notes: tuple[str, ...]  # what the user should know of the result, a line each
    stopped: bool  # whether it was asked to stop before its end; ``resume`` continues


@explain_missing_extra("finetune")
def finetune(
    settings: FinetuneSettings | None = None,
    progress: Callable[[TrainingProgress], None] | None = None,
    **options: Unpack[FinetuneOptions],
) -> FinetuneResult:
    """Fine-tune a model in this process; the command ``bassl finetune`` starts several.

    In the main thread, SIGTERM and SIGINT (Ctrl-C) end the run after the current step, and its state is saved.
    Train one model at a time in a process: two threads would share torch's random generator.
    ``progress`` is called in the first process only: every ``log_steps`` steps, after each epoch, and with notes.
    Raises BasslError for unusable settings or data, a folder that has another run, or a loss that is not finite."""
    settings = resolve_settings(FinetuneSettings, settings, options)
    from pipelines.stages.finetune import task  # start-up time: torch

    return task.run(settings, progress or (lambda state: None))
