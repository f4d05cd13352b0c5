"""Fine-tuning (section 3.4 and appendix A): labelled films in, a model that finds scene ends out.

The shot encoder is frozen, so its features are computed once; what learns is a contextual relation network (CRN) and
its head, several times over, from another seed each. :func:`finetune` runs in this process, as one of those that
torchrun's environment describes. Without the command line::

    torchrun --nproc-per-node 8 -m pipelines.stages.finetune --index data/index.h5 --init runs/pretrain

The epoch is chosen on the validation split. Metrics in the result are those of the release: a shot is a scene end where
softmax gives it at least one half. The model files also hold a calibration, fitted on the validation split, that puts a
score of 0.5 where F1 is best; F1 and mIoU at that point stand beside the others, as ``f1_calibrated`` and
``miou_calibrated``.

All chance is a function of the seed and the step, never of what ran before: a run that was stopped goes on with the
same numbers, and several processes learn what one would (dropout excepted, which each process draws for itself).
"""

from __future__ import annotations

import json
import math
import os
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipelines.errors import BasslError
from pipelines.progress import TrainingProgress
from pipelines.training.running import PRECISIONS, Precision, asked_to_stop, check_identity, computing_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from pipelines.models.calibration import Calibration
    from pipelines.stages.finetune.data import Split
    from pipelines.stages.finetune.start import Start
    from pipelines.stages.finetune.task import Task
    from pipelines.stores.index import Index
    from pipelines.training.distributed import Place
    from pipelines.training.run_folder import RunLog

CRNName = Literal["transformer", "mlp", "ms-lstm", "relational"]


@dataclass(frozen=True)
class Recipe:
    """How a kind of network is trained where the settings do not say."""

    epochs: int = 20
    """Passes over all labelled shots (appendix A)."""
    batch: int = 1024
    """Examples in a step (appendix A)."""
    rate: float | None = None
    """Learning rate; None: 2.5e-6 x batch / 256 for a CRN that is transferred, ten times that for a new one (release).
    That is the paper's 1e-5 at a batch of 1024."""
    weight_decay: float = 0.0
    """Where there is any, the optimiser is AdamW, else Adam."""
    warm_up: float = 0.0
    """Share of the steps over which the rate rises (appendix A: none); then it falls as a cosine."""
    clip: float | None = None
    """Greatest norm of the gradient."""


RECIPES: Mapping[str, Recipe] = {
    "transformer": Recipe(),
    "mlp": Recipe(),
    "ms-lstm": Recipe(),
    # The one that the model in the box was made with.
    "relational": Recipe(epochs=20, batch=128, rate=2e-3, weight_decay=1.0, warm_up=0.05, clip=1.0),
}


@dataclass(frozen=True)
class FinetuneSettings:
    """Everything that decides a fine-tuning run. Values are the paper's (appendix A) where nothing else is said."""

    index: Path = Path("data/index.h5")
    """Index of the videos, with labels."""
    features: tuple[Path, ...] = ()
    """Feature store, or several of one encoder, with all videos of the index. Unless given, the index's own are taken,
    or they are computed."""
    output: Path = Path("runs/finetune")
    """Folder of the models, the result, the logs, and of what is needed to go on."""
    init: str = "last"
    """Where it begins: last (the newest pre-trained run beside the output folder), a run folder, a model file (an
    imported checkpoint too), or none."""
    transfer: Literal["encoder", "encoder+crn"] | None = None
    """What is taken over: encoder (M6 of the paper) or encoder+crn (M7). Unless given, all that the network can use."""
    encoder: str | None = None
    """Shot encoder where there is no pre-trained one: efficientnet_lite0, resnet50, timm:NAME. Unless given, that of
    the index's features, or efficientnet_lite0."""
    feature_folder: Path = Path("data/features")
    """Where features are kept that are computed here, one store an encoder."""
    crn: CRNName = "transformer"
    """Network that reads the shots' features in their context."""
    splits: tuple[str, ...] = ("train",)
    """Splits of the index to learn from. All labelled videos, where no video has a split."""
    validate_split: str = "val"
    """Split to choose the epoch on, and to calibrate on."""
    test_split: str = "test"
    """Split to test on, once, at the end."""
    select: Literal["val", "test", "last"] = "val"
    """What the epoch is chosen on: val; test, as the release does, which makes the result too good; or nothing, for
    last takes the last one."""
    loss: Literal["balanced", "plain"] = "balanced"
    """Cross-entropy: balanced, the positives and negatives of a batch weighted to equal total weight (release), or
    plain (paper)."""
    seeds: int = 5
    """Times to train, from another seed each (section 4.1); mean and standard deviation are reported."""
    seed: int = 0
    """The first seed."""
    epochs: int | None = None
    """Passes over all labelled shots (20)."""
    batch: int | None = None
    """Examples in a step, over all processes (1024; relational 128)."""
    rate: float | None = None
    """Highest learning rate (2.5e-6 x batch / 256 for a transferred CRN, ten times that for a new one; relational
    2e-3)."""
    neighbours: int | None = None
    """K, shots on each side of the centre (8; ms-lstm 2; relational 4; or that of the CRN that is transferred)."""
    width: int | None = None
    """Width of a new network (transformer 768, mlp 4096, ms-lstm 512, relational 0: a linear form)."""
    layers: int = 2
    """Layers of a new transformer, or of a relational network with a width."""
    heads: int = 8
    """Attention heads of a new transformer."""
    dropout: float | None = None
    """In training (transformer 0.1, mlp 0.5, relational 0.5)."""
    sequence: int = 10
    """T, consecutive shots that the ms-lstm reads."""
    end_to_end: bool = False
    """Also train the shot encoder, from key-frames (transformer and mlp)."""
    size: int = 224
    """Side of the key-frames that the encoder reads, with end-to-end."""
    precision: Precision = "auto"
    """auto is bf16 on a GPU (fp16 where it has none) and float32 on a CPU; or float32, float64, bf16, fp16."""
    workers: int = 4
    """Processes that read key-frames, for each process that trains."""
    device: str = "auto"
    """Where: auto, cpu or cuda."""
    log_steps: int = 10
    """Steps from one row of the log to the next."""
    resume: bool = False
    """Go on where the run in the output folder stopped; begin where there is none."""
    overwrite: bool = False
    """Begin again in a folder that holds a run."""

    def __post_init__(self) -> None:
        positive = (
            "seeds",
            "epochs",
            "batch",
            "neighbours",
            "width",
            "layers",
            "heads",
            "sequence",
            "size",
            "log_steps",
        )
        for name in positive:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        for name in ("seed", "workers"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be above 0, not {self.rate}")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in 0 to 1, not {self.dropout}")
        for name, choices in (
            ("crn", tuple(RECIPES)),
            ("select", ("val", "test", "last")),
            ("loss", ("balanced", "plain")),
            ("transfer", (None, "encoder", "encoder+crn")),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in choices:
                listed = ", ".join(str(choice) for choice in choices if choice)
                raise ValueError(f"{name} must be one of {listed}, not {getattr(self, name)!r}")
        if self.resume and self.overwrite:
            raise ValueError("a run can be resumed or overwritten, not both")
        if self.end_to_end and self.features:
            raise ValueError("end_to_end trains the encoder from key-frames; leave features out")
        if self.end_to_end and self.crn not in ("transformer", "mlp"):
            raise ValueError(f"end_to_end is for transformer and mlp; {self.crn} reads features that do not change")

    def recipe(self, transferred: bool) -> Recipe:
        """The recipe with what the settings say of it; its rate is a number.

        Args:
            transferred: whether the CRN begins as pre-training left it.
        """
        own = RECIPES[self.crn]
        batch = self.batch or own.batch
        scaled = 2.5e-6 * batch / 256 * (1 if transferred else 10)
        return replace(own, epochs=self.epochs or own.epochs, batch=batch, rate=self.rate or own.rate or scaled)


@dataclass(frozen=True)
class FinetuneResult:
    """What a run left.

    Attributes:
        model: the file of the chosen seed's model.
        report: the file with all measures of all seeds.
        step, steps: taken, of how many.
        selected_on: what epochs were chosen on: ``val``, ``test`` or ``last epoch``.
        mean, std: of the test metrics over the seeds (sample deviation; empty for one seed), or where there is no test
            split of the validation metrics.
        tested_on: the split that ``mean`` is of; None where there is none.
        notes: what the user should know of the result, a line each.
        stopped: whether it was asked to stop before its end; ``resume`` then goes on.
    """

    model: Path
    report: Path
    step: int
    steps: int
    selected_on: str
    mean: dict[str, float]
    std: dict[str, float]
    tested_on: str | None
    notes: tuple[str, ...]
    stopped: bool


def finetune(
    settings: FinetuneSettings = FinetuneSettings(), progress: Callable[[TrainingProgress], None] | None = None
) -> FinetuneResult:
    """Fine-tune a model; as one process of several where torchrun started it.

    SIGTERM and SIGINT (Ctrl-C) let the step in hand end and save it, if this is called in the main thread.

    Args:
        settings: all of it.
        progress: told every ``log_steps`` steps, after an epoch, and of notes, in the first process only.

    Raises:
        BasslError: one line, for settings or data that cannot be used, a folder that holds another run, or a loss that
            is no number.
    """
    from pipelines.stages.finetune.data import share_out
    from pipelines.stages.finetune.frames import frame_task
    from pipelines.stages.finetune.start import find_encoding, find_start
    from pipelines.stages.finetune.task import feature_task
    from pipelines.stores.index import read_index
    from pipelines.training.distributed import process_group

    notes: list[str] = []
    first = os.environ.get("RANK", "0") == "0"
    report = progress if progress is not None and first else lambda state: None

    def tell(note: str) -> None:
        notes.append(note)
        report(TrainingProgress(note=note))

    index = read_index(settings.index)
    split = share_out(settings, index, tell)
    start = find_start(settings, tell)
    with process_group(settings.device) as place:
        # Encoding takes no orders to stop, and needs none: what it has done is kept when it is killed.
        encoding = None if settings.end_to_end else find_encoding(settings, index, start, place, tell)
        with asked_to_stop() as asked:
            task: Task = (
                frame_task(settings, index, start, place)
                if encoding is None
                else feature_task(settings, index, start, encoding, place)
            )
            return _run(settings, index, split, start, task, place, report, asked, notes)


def _run(
    settings: FinetuneSettings,
    index: Index,
    split: Split,
    start: Start,
    task: Task,
    place: Place,
    progress: Callable[[TrainingProgress], None],
    asked: list[int],
    notes: list[str],
) -> FinetuneResult:
    """All seeds, one after the other, and what comes of them."""
    from pipelines.stages.finetune.measures import summary_of, write_result
    from pipelines.training.distributed import first_decides
    from pipelines.training.run_folder import MODEL, RESULT, RunLog, load_state, open_run_folder, save_state

    recipe = settings.recipe(start.transfer == "encoder+crn")
    epoch_steps = task.epoch_steps(split.train, recipe.batch)
    steps = epoch_steps * recipe.epochs
    first_decides(place, lambda: open_run_folder(settings.output, settings.resume, settings.overwrite))
    identity = _identity(settings, index, task)
    saved = load_state(settings.output) if settings.resume else None
    if saved is not None:
        check_identity(settings.output, json.loads(saved["settings"]), identity)
    records: list[dict[str, Any]] = json.loads(saved["records"]) if saved is not None else []
    log = RunLog(settings.output, saved["step"] if saved is not None else 0) if place.is_first else None

    def save(number: int, at: int, rest: Mapping[str, Any]) -> None:
        if place.is_first:
            here = {"settings": json.dumps(identity), "records": json.dumps(records), "step": number * steps + at}
            save_state(settings.output, {**here, "number": number, "at": at, **rest})

    stopped, number = False, saved["number"] if saved is not None else 0
    at = number * steps
    while number < settings.seeds and not stopped:
        training = _Training(settings, recipe, split, task, place, number, epoch_steps)
        if saved is not None and saved["at"]:
            training.restore(saved)
        saved = None
        stopped = training.run(log, progress, asked, partial(save, number))
        at = number * steps + training.step
        if not stopped:
            if place.is_first:
                records.append(training.finish(identity, start, notes))
            number += 1
            save(number, 0, {"model": {}, "optimizer": {}})
    if log is not None:
        log.close()
    mean, std, tested_on = summary_of(records, split)
    if place.is_first and records:
        write_result(settings, index, split, start, task, records, mean, std, tested_on, notes)
    first_decides(place, lambda: None)  # none leaves before the files are there
    return FinetuneResult(
        settings.output / MODEL,
        settings.output / RESULT,
        at,
        steps * settings.seeds,
        split.selected_on,
        mean,
        std,
        tested_on,
        tuple(notes),
        stopped,
    )


class _Training:
    """The training of one network, from one seed."""

    def __init__(
        self,
        settings: FinetuneSettings,
        recipe: Recipe,
        split: Split,
        task: Task,
        place: Place,
        number: int,
        epoch_steps: int,
    ) -> None:
        import torch

        from pipelines.stages.pretrain.data import torch_seed
        from pipelines.training import optimization

        self.settings, self.recipe, self.split, self.task, self.place = settings, recipe, split, task, place
        self.number, self.seed = number, settings.seed + number
        self.epoch_steps, self.steps, self.step = epoch_steps, epoch_steps * recipe.epochs, 0
        torch.manual_seed(torch_seed(self.seed, 0))
        self.network = task.build()
        self.trained = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        self.optimizer = optimization.make_adam(self.trained, recipe.weight_decay)
        self.precision, self.scaler = computing_in(settings.precision, place)
        self.losses: list[float] = []  # of the epoch in hand
        self.epochs: list[dict[str, Any]] = []
        self.best_epoch, self.best_score = 0, -math.inf
        self.best: dict[str, Tensor] = {}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on where a state was saved."""
        self.network.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.scaler.load_state_dict(saved["scaler"])
        self.step, self.losses, self.epochs = saved["at"], saved["losses"], json.loads(saved["epochs"])
        self.best_epoch, self.best_score, self.best = saved["best_epoch"], saved["best_score"], saved["best"]

    def state(self) -> dict[str, Any]:
        """What `restore` needs."""
        return {
            "model": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "losses": self.losses,
            "epochs": json.dumps(self.epochs),
            "best_epoch": self.best_epoch,
            "best_score": self.best_score,
            "best": self.best,
        }

    def run(
        self,
        log: RunLog | None,
        progress: Callable[[TrainingProgress], None],
        asked: list[int],
        save: Callable[[int, Mapping[str, Any]], None],
    ) -> bool:
        """Train to the end, or until it is asked to stop; whether it was."""
        import torch

        from pipelines.stages.finetune.data import weighted_cross_entropy
        from pipelines.stages.pretrain.data import torch_seed
        from pipelines.training import optimization
        from pipelines.training.distributed import any_process, average_gradients

        settings, recipe, place = self.settings, self.recipe, self.place
        assert recipe.rate is not None
        self.network.train()
        batches = self.task.batches(self.split.train, recipe.batch, recipe.epochs, self.seed, self.step)
        unchecked: list[tuple[Tensor, Tensor]] = []
        since, waited = time.perf_counter(), 0.0
        for step in range(self.step, self.steps):
            asking = time.perf_counter()
            batch = next(batches)
            waited += time.perf_counter() - asking
            torch.manual_seed(torch_seed(self.seed, 300, step, place.rank))  # of dropout
            rate = optimization.learning_rate(step, self.steps, recipe.rate, recipe.warm_up)
            optimization.set_learning_rate(self.optimizer, rate)
            with self.precision():
                logits = self.network(batch.inputs)
            loss = weighted_cross_entropy(
                logits if logits.dtype == torch.float64 else logits.float(), batch.targets, batch.weights
            )
            self.scaler.scale(loss * place.processes).backward()  # type: ignore[no-untyped-call]
            average_gradients(place, self.trained)  # of shares of one loss: their sum is that of the whole batch
            self.scaler.unscale_(self.optimizer)
            gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
            norm = torch.nn.utils.get_total_norm(gradients)
            if recipe.clip is not None:
                torch.nn.utils.clip_grads_with_norm_(self.trained, recipe.clip, norm)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad(set_to_none=True)

            unchecked.append((loss.detach().double(), norm.double()))
            self.step = step + 1
            ends = self.step % self.epoch_steps == 0
            stopped = any_process(place, bool(asked)) and self.step < self.steps
            if not (self.step % settings.log_steps == 0 or ends or stopped):
                continue
            recent = self._checked(unchecked)  # waits for the device, as nothing before does
            self.losses += recent
            seconds = time.perf_counter() - since
            speed = len(recent) * self.task.shots_in_step(self.split.train, recipe.batch) / seconds
            state = TrainingProgress(
                self.number * self.steps + self.step,
                settings.seeds * self.steps,
                step // self.epoch_steps + 1,
                recipe.epochs,
                {"loss": math.fsum(recent) / len(recent)},
                rate,
                speed,
                waited / seconds,
                seed=self.number + 1,
                seeds=settings.seeds,
                unit="shots",
            )
            if log is not None:
                at = {"step": state.step, "seed": self.seed, "epoch": state.epoch, "learning_rate": rate}
                log.write("log", {**at, **state.losses, "shots_per_second": speed, "waiting": state.waiting})
                progress(state)
            if ends:
                if log is not None:
                    measures = self._end_epoch(state.epoch)
                    if measures:
                        log.write(
                            "validation", {"step": state.step, "seed": self.seed, "epoch": state.epoch, **measures}
                        )
                        progress(replace(state, validation=measures))
                    self.network.train()
                self.losses = []
            if stopped or (ends and self.step < self.steps):
                save(self.step, self.state())
            if stopped:
                return True
            since, waited, unchecked = time.perf_counter(), 0.0, []
        return False

    def _checked(self, steps: list[tuple[Tensor, Tensor]]) -> list[float]:
        """The losses of the last steps, over all processes.

        Raises:
            BasslError: one line, which step's loss or gradient is no number, and why.
        """
        import torch

        from pipelines.pretext.gather import mean_over_processes
        from pipelines.training.distributed import any_process

        losses = mean_over_processes(torch.stack([loss for loss, _ in steps])) * self.place.processes
        values, norms = losses.tolist(), torch.stack([norm for _, norm in steps]).tolist()
        first = self.step - len(steps)
        for step, (loss, norm) in enumerate(zip(values, norms, strict=True), start=first):
            # fp16 meets gradients that are too large now and then; its scaler leaves such a step out.
            if math.isfinite(loss) and (math.isfinite(norm) or self.scaler.is_enabled()):
                continue
            batch = next(self.task.batches(self.split.train, self.recipe.batch, self.recipe.epochs, self.seed, step))
            here = f"step {step + 1} of seed {self.seed}"
            if any_process(self.place, not bool(torch.isfinite(batch.inputs).all())):
                raise BasslError(
                    f"{here}: its features are not all finite numbers; make the feature store again"
                    if not self.settings.end_to_end
                    else f"{here}: its key-frames are not all finite numbers"
                )
            advice = "try a smaller --rate, or --precision float32"
            if math.isfinite(loss):
                raise BasslError(f"{here}: its gradient is not finite, though its loss is ({loss:.4g}); {advice}")
            raise BasslError(f"{here}: its loss is {loss}, though its features are finite; {advice}")
        return values

    def _end_epoch(self, epoch: int) -> dict[str, float]:
        """Measure, and keep the network if it is the best so far; what was measured."""
        row: dict[str, Any] = {"epoch": epoch, "loss": math.fsum(self.losses) / len(self.losses)}
        measures: dict[str, float] = {}
        if self.split.val:
            measures |= _prefixed("val", self._measure(self.split.val))
        if self.split.selected_on == "test":
            measures |= _prefixed("test", self._measure(self.split.test))
        self.epochs.append(row | measures)
        score = {"val": measures.get("val_ap"), "test": measures.get("test_ap"), "last epoch": float(epoch)}[
            self.split.selected_on
        ]
        if score is not None and score > self.best_score:
            self.best_epoch, self.best_score = epoch, score
            self.best = {name: tensor.detach().cpu().clone() for name, tensor in self.network.state_dict().items()}
        return measures

    def _measure(self, videos: list[int]) -> dict[str, float]:
        from pipelines.stages.finetune.measures import measured

        return measured(self.task, videos, self.task.logits(self.network, videos))

    def finish(self, identity: Mapping[str, Any], start: Start, notes: list[str]) -> dict[str, Any]:
        """Write the model of the chosen epoch; its part of the result."""
        from pipelines.models.boundary import save_boundary_model
        from pipelines.models.calibration import Calibration
        from pipelines.stages.finetune.measures import measured, seed_file

        self.network.load_state_dict(self.best)
        calibration, logits = None, self.task.logits(self.network, self.split.val)
        if self.split.val:
            calibration = self._calibration(logits, notes)
        record: dict[str, Any] = {
            "seed": self.seed,
            "epochs": self.epochs,
            "chosen_epoch": self.best_epoch,
            "calibration": asdict(calibration) if calibration is not None else None,
            "validation": measured(self.task, self.split.val, logits, calibration) if self.split.val else None,
            "test": None,
        }
        if self.split.test:
            logits = self.task.logits(self.network, self.split.test)
            record["test"] = measured(self.task, self.split.test, logits, calibration)
        training = {
            "stage": "finetune",
            "seed": self.seed,
            "epoch": self.best_epoch,
            "selected_on": self.split.selected_on,
            "init": str(start.path) if start.path is not None else None,
            "transfer": start.transfer,
            "pretraining": dict(start.weights.training) if start.weights is not None else None,
            "settings": dict(identity),
            "validation": record["validation"],
            "test": record["test"],
        }
        model = self.task.model(self.network, calibration or Calibration(), training)
        save_boundary_model(self.settings.output / seed_file(self.seed), model)
        return record

    def _calibration(self, logits: list[NDArray[np.float64]], notes: list[str]) -> Calibration | None:
        import numpy as np

        from pipelines.evaluation.calibration import fit_calibration

        index = self.task.index
        known, labels = (
            np.concatenate([values[index.first_row[v] : index.first_row[v + 1]] for v in self.split.val])
            for values in (self.task.usable, self.task.targets)
        )
        try:
            return fit_calibration(np.concatenate(logits)[known], labels[known].astype(np.uint8))
        except ValueError as error:
            notes.append(f"seed {self.seed}: scores are not calibrated ({error})")
            return None


def _prefixed(prefix: str, measures: Mapping[str, float]) -> dict[str, float]:
    return {f"{prefix}_{name}": measures[name] for name in ("ap", "auc", "f1", "miou")}


_FREE = {
    *("index", "features", "feature_folder", "output", "device", "workers", "resume", "overwrite", "log_steps"),
    *("init", "transfer", "encoder", "seeds"),
}


def _identity(settings: FinetuneSettings, index: Index, task: Task) -> dict[str, Any]:
    """What must be the same when a run goes on; not where files are, how it is watched, or how many seeds follow."""
    from pipelines.stages.finetune.measures import plain

    chosen = {name: plain(value) for name, value in asdict(settings).items() if name not in _FREE}
    chosen["encoder"] = task.encoder
    chosen["start"] = task.start_digest
    chosen["labels of the index"] = zlib.crc32(index.label.tobytes(), zlib.crc32(index.first_row.tobytes()))
    chosen["splits of the index"] = zlib.crc32("\n".join(index.splits).encode())
    return chosen
