"""Self-supervised pre-training (section 3 and appendix A): windows of shots in, a model out.

Two ways: from key-frames, where the shot encoder learns too, and from a feature store, where a frozen encoder has done
its part and the CRN and the heads learn alone (that runs on a CPU).

:func:`pretrain` runs in this process, as one of those that torchrun's environment describes. Without the command line::

    torchrun --nproc-per-node 8 -m pipelines.stages.pretrain --index data/index.h5 --epochs 40

All chance is a function of the seed, the step and the window, never of what ran before. So a run that was stopped goes
on with the same numbers, and several processes draw what one would (dropout excepted, which each process draws for
itself).
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import BasslError
from pipelines.pretext.settings import PretextSettings
from pipelines.progress import TrainingProgress
from pipelines.training.augmentation_settings import AugmentationSettings
from pipelines.training.running import PRECISIONS, Precision, asked_to_stop, check_identity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from pipelines.models.bassl import BasslWeights
    from pipelines.models.image_networks import TrainableEncoder
    from pipelines.models.shapes import CRNSettings
    from pipelines.stages.pretrain.data import Batch, FeatureSource, KeyframeSource, Plan, WindowChooser
    from pipelines.stages.pretrain.model import PretrainModel
    from pipelines.stores.index import Index
    from pipelines.training.distributed import Place


@dataclass(frozen=True)
class PretrainSettings:
    """Everything that decides a pre-training run. Values are the paper's (appendix A) where nothing else is said."""

    index: Path = Path("data/index.h5")
    """Index of the videos to learn from; their labels are used for validation only."""
    features: tuple[Path, ...] = ()
    """Feature store, or several of one encoder, with all videos of the index: trains the CRN and the heads on a frozen
    encoder. None learns from key-frames."""
    output: Path = Path("runs/pretrain")
    """Folder of the model, of what is needed to go on, and of the logs."""
    pretext: PretextSettings = field(default_factory=PretextSettings)
    """Method, tasks, pseudo-boundaries, temperature, masking rate."""
    augmentation: AugmentationSettings = field(default_factory=AugmentationSettings)
    """Of key-frames; its mean and deviation are those that the encoder expects."""
    splits: tuple[str, ...] = ()
    """Splits of the index to learn from, such as train,val; none takes all videos."""
    neighbours: int = 8
    """K, shots on each side of the centre (section 4.1)."""
    epochs: int = 10
    """Passes over all shots (table 4c: 40 for the best result)."""
    batch: int = 256
    """Windows in a step, over all processes."""
    micro_batch: int = 0
    """Windows that a process encodes at a time, where the memory is short for all of its own; 0 is all. All windows of
    the batch stay each other's negatives; batch normalisation sees only so many."""
    encoder: str = "resnet50"
    """Shot encoder to train: resnet18 to resnet152 or timm:NAME (section 4.1: resnet50)."""
    init: str | None = None
    """Where weights begin: none at random, imagenet, or a model of an earlier run (its encoder and its CRN)."""
    freeze_encoder: bool = False
    """Keep the encoder as it begins."""
    base_rate: float = 0.3
    """Learning rate at a batch of 256; it is scaled by batch / 256 (release)."""
    momentum: float = 0.9
    """Of LARS."""
    weight_decay: float = 1e-6
    """Of LARS."""
    trust: float = 0.001
    """Trust coefficient of LARS."""
    warm_up: float = 0.1
    """Share of the steps over which the learning rate rises."""
    width: int = 768
    """Width of the CRN, H."""
    layers: int = 2
    """Layers of the CRN, L."""
    heads: int = 8
    """Attention heads of the CRN, A."""
    dropout: float = 0.1
    """In the CRN."""
    precision: Precision = "auto"
    """auto is bf16 on a GPU (fp16 where it has none) and float32 on a CPU; or float32, float64, bf16, fp16."""
    compile: bool = False
    """Let torch.compile make the encoder and the CRN: minutes at the start, for faster steps."""
    workers: int = 4
    """Processes that read key-frames, for each process that trains."""
    decoded_size: int = 256
    """Side of the square that key-frames are squeezed to before they are augmented."""
    seed: int = 0
    """Of weights, order and all draws."""
    device: str = "auto"
    """Where: auto, cpu or cuda."""
    log_steps: int = 10
    """Steps from one row of the log to the next."""
    validate_split: str = "val"
    """Labelled videos to validate on; all labelled ones where this split has none."""
    validate_epochs: int = 1
    """Epochs from one validation to the next; 0 never."""
    resume: bool = False
    """Go on where the run in the output folder stopped; begin where there is none."""
    overwrite: bool = False
    """Begin again in a folder that holds a run."""

    def __post_init__(self) -> None:
        whole = ("neighbours", "epochs", "width", "layers", "heads", "decoded_size", "log_steps")
        for name in whole:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("micro_batch", "momentum", "weight_decay", "warm_up", "workers", "seed", "validate_epochs"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        if self.batch < 2:
            raise ValueError(f"batch must be at least 2, for windows are compared with each other, not {self.batch}")
        if not self.base_rate > 0 or not self.trust > 0 or not self.warm_up <= 1 or not 0 <= self.dropout < 1:
            raise ValueError("base_rate and trust must be above 0, warm_up at most 1, and dropout in 0 to 1")
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} cannot be shared among {self.heads} attention heads")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be auto, float32, float64, bf16 or fp16, not {self.precision!r}")
        if self.resume and self.overwrite:
            raise ValueError("a run can be resumed or overwritten, not both")
        if self.features and self.pretext.method == "simclr-instance":
            raise ValueError(
                "simclr-instance compares two augmentations of a shot, and features have none; use key-frames"
            )
        if self.features and (self.micro_batch or self.freeze_encoder):
            raise ValueError("micro_batch and freeze_encoder are for key-frames; with features no encoder runs")

    @property
    def peak_rate(self) -> float:
        """The highest learning rate: base rate times batch / 256."""
        return self.base_rate * self.batch / 256


@dataclass(frozen=True)
class PretrainResult:
    """What a run left.

    Attributes:
        model: its file.
        step, steps: taken, of how many.
        losses: means over the last epoch that was taken part in, by task, and ``loss``.
        validation: the last measures.
        stopped: whether it was asked to stop before its end; ``resume`` then goes on.
    """

    model: Path
    step: int
    steps: int
    losses: dict[str, float]
    validation: dict[str, float]
    stopped: bool


def pretrain(
    settings: PretrainSettings = PretrainSettings(), progress: Callable[[TrainingProgress], None] | None = None
) -> PretrainResult:
    """Pre-train a model; as one process of several where torchrun started it.

    SIGTERM and SIGINT (Ctrl-C) let the step in hand end and save it, if this is called in the main thread.

    Args:
        settings: all of it.
        progress: told every ``log_steps`` steps and after an epoch, in the first process only.

    Raises:
        BasslError: one line, for settings or data that cannot be used, or a folder that holds another run.
    """
    from pipelines.stages.pretrain.step import limits_in_one_line
    from pipelines.training.distributed import process_group

    with process_group(settings.device) as place, asked_to_stop() as asked, limits_in_one_line():
        return _run(settings, place, progress or (lambda state: None), asked)


def _run(
    settings: PretrainSettings, place: Place, progress: Callable[[TrainingProgress], None], asked: list[int]
) -> PretrainResult:
    import torch

    from pipelines.models.bassl import save_bassl_model
    from pipelines.pretext.gather import mean_over_processes
    from pipelines.stages.pretrain.data import Plan, WindowChooser, noise_of, torch_seed
    from pipelines.stages.pretrain.step import make_learner, take_step
    from pipelines.stages.pretrain.validation import labelled_videos, validate
    from pipelines.stores.index import read_index
    from pipelines.training.distributed import any_process, first_decides
    from pipelines.training.optimization import learning_rate
    from pipelines.training.run_folder import MODEL, RunLog, load_state, open_run_folder, save_state

    if settings.batch % place.processes:
        raise BasslError(f"a batch of {settings.batch} cannot be shared equally by {place.processes} processes")
    index = read_index(settings.index)
    chooser = WindowChooser(index.first_row, settings.pretext, settings.neighbours, settings.seed)
    plan = Plan(_rows(index, settings), settings.batch, settings.epochs, settings.seed)
    if not plan.epoch_steps:
        raise BasslError(
            f"{settings.index}: {len(plan.rows)} shots do not fill a batch of {settings.batch}; use --batch"
        )
    if settings.pretext.pseudo_boundary == "synthesized" and len(index.video_ids) < 2:
        raise BasslError(f"{settings.index}: synthesized pseudo-boundaries need at least two videos")
    source = _source(settings, index, chooser, place)
    encoder, model, describe = make_model(settings, source, place)
    first_decides(place, lambda: open_run_folder(settings.output, settings.resume, settings.overwrite))

    learner = make_learner(settings, model, place)
    identity = _identity(settings, index)
    seen = len(set(index.video_of(plan.rows).tolist()))
    learned_from = {"path": str(settings.index), "videos": seen, "shots": len(plan.rows)}
    start, sums, names, validation = 0, torch.zeros(0, dtype=torch.float64), list[str](), dict[str, float]()
    if settings.resume and (saved := load_state(settings.output)) is not None:
        check_identity(settings.output, json.loads(saved["settings"]), identity)
        learner.go_on_from(saved)
        start, sums, names, validation = saved["step"], saved["sums"], saved["names"], saved["validation"]
    sums = sums.to(place.device)
    videos = labelled_videos(index, settings.validate_split)
    log = RunLog(settings.output, start) if place.is_first else None
    step, stopped = start, False

    def save() -> None:
        if place.is_first:
            weights = describe(step)
            weights.training["data"] = learned_from
            save_bassl_model(settings.output / MODEL, weights)
            state = {"settings": json.dumps(identity), "step": step, **learner.state()}
            save_state(settings.output, state | {"sums": sums.cpu(), "names": names, "validation": validation})

    model.train()
    batches = source.batches(plan, start)
    since, waited, steps_since = time.perf_counter(), 0.0, 0
    local = settings.batch // place.processes
    for _ in range(start, plan.steps):
        asking = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asking
        rate = learning_rate(batch.step, plan.steps, settings.peak_rate, settings.warm_up)
        noise = noise_of(plan, batch.step, len(chooser.dense), place) if settings.pretext.needs_noise else None
        views = make_views(settings, chooser, plan, batch, encoder, place)
        seed = torch_seed(settings.seed, 100, batch.step, place.rank)
        loss = take_step(learner, views, local, noise, batch.joins, rate, seed)

        step = batch.step + 1
        names = ["loss", *loss.parts]
        values = mean_over_processes(torch.stack([loss.total, *loss.parts.values()]).detach().double())
        begins, ends = batch.step % plan.epoch_steps == 0, step % plan.epoch_steps == 0
        sums = values if begins else sums + values
        steps_since += 1
        stopped = any_process(place, bool(asked)) and step < plan.steps
        if step % settings.log_steps == 0 or ends or stopped:
            losses = dict(zip(names, values.tolist(), strict=True))  # waits for this step, as nothing else does
            if not math.isfinite(losses["loss"]):
                raise BasslError(
                    f"the loss of step {step} is not finite; try a smaller --base-rate, or --precision float32"
                )
            seconds = time.perf_counter() - since
            state = TrainingProgress(
                step,
                plan.steps,
                batch.epoch + 1,
                settings.epochs,
                losses,
                rate,
                steps_since * settings.batch / seconds,
                waited / seconds,
            )
            if log is not None:
                speed = {"windows_per_second": state.speed, "waiting": state.waiting}
                log.write("log", {"step": step, "epoch": state.epoch, "learning_rate": rate, **losses, **speed})
                progress(state)
            since, waited, steps_since = time.perf_counter(), 0.0, 0
        due = settings.validate_epochs and (batch.epoch + 1) % settings.validate_epochs == 0
        if ends and due and len(videos.rows):
            size = settings.augmentation.size
            validation = validate(learner, source, encoder, videos, settings.neighbours, size)
            if log is not None and validation:
                log.write("validation", {"step": step, "epoch": batch.epoch + 1, **validation})
                progress(replace(state, validation=validation))
            since = time.perf_counter()
        if ends or stopped:
            save()
        if stopped:
            break
    if log is not None:
        log.close()
    taken = (step - 1) % plan.epoch_steps + 1
    means = dict(zip(names, (sums / taken).tolist(), strict=True)) if names else {}
    return PretrainResult(settings.output / MODEL, step, plan.steps, means, validation, stopped)


def _rows(index: Index, settings: PretrainSettings) -> NDArray[np.int64]:
    rows = index.rows_of(settings.splits or None)
    if not len(rows):
        there = ", ".join(sorted({split for split in index.splits if split})) or "no splits"
        raise BasslError(f"{settings.index}: has no shots of the splits {', '.join(settings.splits)}; it has {there}")
    return rows


def _source(
    settings: PretrainSettings, index: Index, chooser: WindowChooser, place: Place
) -> FeatureSource | KeyframeSource:
    from pipelines.stages.pretrain.data import FeatureSource, KeyframeSource

    if settings.features:
        return FeatureSource(index, settings.features, chooser, place)
    return KeyframeSource(index, chooser, place, settings.workers, settings.decoded_size)


def make_model(
    settings: PretrainSettings, source: FeatureSource | KeyframeSource, place: Place
) -> tuple[TrainableEncoder | None, PretrainModel, Callable[[int], BasslWeights]]:
    """Encoder (None for features), the module to train on its device, and what describes it as a model file."""
    import torch

    from pipelines.models.bassl import BasslSettings, BasslWeights, load_bassl_model
    from pipelines.models.crn import ContextualRelationNetwork
    from pipelines.models.image_networks import trainable_encoder
    from pipelines.models.shapes import CRNSettings
    from pipelines.pretext.objective import PretextObjective
    from pipelines.stages.pretrain.data import FeatureSource
    from pipelines.stages.pretrain.model import PretrainModel

    torch.manual_seed(settings.seed)
    encoder = None
    if isinstance(source, FeatureSource):
        name, input_width = source.encoder, source.features.shape[1]
        if settings.init == "imagenet":
            raise BasslError("--init imagenet is for an encoder; with --features none runs")
    else:
        encoder = trainable_encoder(settings.encoder, settings.init == "imagenet")
        name, input_width = settings.encoder, encoder.width
    crn_settings: CRNSettings | None = None
    if settings.pretext.needs_crn:
        crn_settings = CRNSettings(
            settings.neighbours,
            input_width,
            settings.width,
            settings.layers,
            settings.heads,
            4 * settings.width,
            settings.dropout,
        )
    crn = ContextualRelationNetwork(crn_settings) if crn_settings else None
    objective = PretextObjective(settings.pretext, input_width, settings.width)
    model = PretrainModel(encoder.network if encoder else None, crn, objective, settings.freeze_encoder)
    if settings.init not in (None, "imagenet"):
        _begin_with(model, Path(str(settings.init)), load_bassl_model(Path(str(settings.init))))
    if place.device.type == "cuda" and place.processes > 1 and encoder is not None:
        model.synchronise_norms()
    model.to(place.device, torch.float64 if settings.precision == "float64" else torch.float32)
    if encoder is not None:
        model.to(memory_format=torch.channels_last)

    def describe(step: int) -> BasslWeights:
        def plain(module: nn.Module | None) -> dict[str, Tensor]:
            tensors = {} if module is None else module.state_dict()
            return {
                key: (v.float() if v.is_floating_point() else v).detach().cpu().contiguous()
                for key, v in tensors.items()
            }

        # Weights of ImageNet that stayed as they are need no copy.
        known = settings.freeze_encoder and settings.init == "imagenet"
        training = {"stage": "pretrain", "step": step, **_identity(settings, None)}
        return BasslWeights(
            BasslSettings(name, crn_settings),
            {} if known else plain(model.encoder),
            plain(model.crn),
            plain(model.objective),
            training,
        )

    return encoder, model, describe


def _begin_with(model: PretrainModel, path: Path, weights: BasslWeights) -> None:
    """Put the encoder and the CRN of a model file into the model, those of them that both have."""
    found = False
    for part, module, tensors in (("encoder", model.encoder, weights.encoder), ("CRN", model.crn, weights.crn)):
        if module is not None and tensors:
            try:
                module.load_state_dict(tensors)
            except RuntimeError as error:
                raise BasslError(f"{path}: its {part} is of another shape; choose the same encoder and CRN") from error
            found = True
    if not found:
        raise BasslError(f"{path}: has neither an encoder nor a CRN that this run trains; name another model")


def make_views(
    settings: PretrainSettings,
    chooser: WindowChooser,
    plan: Plan,
    batch: Batch,
    encoder: TrainableEncoder | None,
    place: Place,
) -> Callable[[slice], tuple[Tensor, Tensor]]:
    """The dense and the slow sequences of some windows of a batch; of key-frames, each under its own augmentation."""
    import torch

    dtype = torch.float64 if settings.precision == "float64" else torch.float32
    dense, slow = chooser.dense, chooser.slow

    def chosen(shots: Tensor, places: tuple[int, ...]) -> Tensor:
        # A list as an index would become a tensor, which a GPU must be waited for to get.
        return shots if places == tuple(range(shots.shape[1])) else torch.stack([shots[:, k] for k in places], dim=1)

    if encoder is None:
        shots = batch.shots.to(dtype)
        return lambda part: (chosen(shots[part], dense), chosen(shots[part], slow))
    from pipelines.stages.pretrain.data import augmentation_generator
    from pipelines.training.augmentation import augment, plan_augmentations, random_numbers

    augmentation = replace(settings.augmentation, mean=encoder.mean, std=encoder.std)
    generator = augmentation_generator(plan, batch.step)
    own = place.share(plan.batch)
    first, second = (
        plan_augmentations(random_numbers(plan.batch, len(shots), generator)[own], batch.frame, augmentation)
        for shots in (dense, slow)
    )

    def views(part: slice) -> tuple[Tensor, Tensor]:
        pictures = batch.shots[part]
        return (
            augment(chosen(pictures, dense), first.part(part), augmentation).to(dtype),
            augment(chosen(pictures, slow), second.part(part), augmentation).to(dtype),
        )

    return views


_FREE = {
    *("index", "features", "output", "device", "workers", "micro_batch", "compile", "resume", "overwrite"),
    *("log_steps", "validate_split", "validate_epochs"),
}


def _identity(settings: PretrainSettings, index: Index | None) -> dict[str, Any]:
    """What must be the same when a run goes on; not where its files are or how it is watched."""
    chosen = {name: value for name, value in asdict(settings).items() if name not in _FREE}
    if index is not None:
        chosen["shots of the index"] = zlib.crc32(index.first_row.tobytes())
    plain: dict[str, Any] = json.loads(json.dumps(chosen, default=str))
    return plain
