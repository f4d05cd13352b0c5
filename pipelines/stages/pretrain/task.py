"""Pre-training as a task of the training loop: its data, network, losses, validation, and what a run saves."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.datasets.movienet import KeyframeReader
from pipelines.errors import BasslError
from pipelines.evaluation.metrics import SCENE_LENGTHS, average_precision, knn_precision, scene_ids, scene_nmi
from pipelines.models.bassl import BasslSettings, BasslWeights, save_bassl_model
from pipelines.models.opening import MODEL
from pipelines.pretext import AugmentationSettings
from pipelines.progress import TrainingProgress
from pipelines.stages.pretrain import PretrainResult, PretrainSettings
from pipelines.stages.pretrain.data import CroppedViews, FeatureWindows, PretextWindows, make_views, noise_of
from pipelines.stages.pretrain.model import PretrainModel, backward_windows, choose_micro_batch, make_model
from pipelines.stores.features import stores_with
from pipelines.stores.index import Index, read_index, window_rows
from pipelines.training import stop_signals
from pipelines.training.data import (
    KeyframeWindows,
    WindowBatch,
    WindowOrder,
    pinned,
    read_ahead,
    translate_resource_errors,
)
from pipelines.training.distributed import Process, process_group, send
from pipelines.training.loop import (
    PRETRAIN_DROPOUT,
    Task,
    Trainer,
    logged_run,
    make_lars,
    make_trainer,
    plain_weights,
    resolved_precision,
    torch_seed,
    train,
    weight_dtype,
)
from pipelines.training.run_folder import open_run, save_state, settings_as_json
from pipelines.video.images import resize_and_crop

_NOT_IN_IDENTITY = {
    *("index", "features", "output", "device", "workers", "micro_batch", "resume", "overwrite"),
    *("log_steps", "save_minutes", "validate_epochs", "deterministic"),
}
_WINDOWS = 256  # contextualized at a time
_SHOTS = 21  # read by a thread at a time, and encoded together: 63 images


def run(settings: PretrainSettings, report: Callable[[TrainingProgress], None]) -> PretrainResult:
    """Pre-train a model; see :func:`pipelines.stages.pretrain.pretrain`."""
    relief = "use `micro_batch` to encode fewer windows at a time; batch normalization then sees only these"
    with (
        process_group(settings.compute.device) as process,
        stop_signals() as signals,
        translate_resource_errors(relief),
        ExitStack() as lock,
    ):
        return _pretrain(settings, process, report if process.is_first else lambda state: None, signals, lock)


def _pretrain(
    settings: PretrainSettings,
    process: Process,
    report: Callable[[TrainingProgress], None],
    signals: list[int],
    lock: ExitStack,
) -> PretrainResult:
    index = read_index(settings.data.index)
    learned = index.videos_of(settings.data.splits or None)
    order = window_order(settings, index, learned, process.world_size)
    windows = PretextWindows(index.first_row, settings.pretext, settings.neighbors, settings.run.seed, order.rows)
    videos = validation_videos(settings, index)
    used = sorted({*learned, *videos})
    features = None
    if settings.data.features:
        features = FeatureWindows(index, settings.data.features, windows, process, used)
    else:
        index.check_keyframes(used)

    model, augmentation = make_model(settings, None if features is None else features.width, process)
    source: FeatureWindows | KeyframeWindows
    if features is not None:
        source, cropped = features, None
    else:
        cropped = CroppedViews((windows.dense, windows.slow), order.seed, order.batch, augmentation)
        source = KeyframeWindows(index, windows.rows, process, settings.compute.workers or 0, cropped)
    micro_batch, note = choose_micro_batch(settings, model, windows, process)

    output = settings.run.output
    identity = {  # what must be the same to resume a run
        **settings_as_json(settings, without=_NOT_IN_IDENTITY),
        "shots of the index": zlib.crc32(index.first_row.tobytes()),
        "keyframes of the index": index.shots_crc32,
        "encoder of the features": features and features.encoder,
    }
    saved = lock.enter_context(open_run(settings.run, identity, process))
    before = saved.get("micro_batch") if saved is not None else None
    if before and settings.micro_batch is None and not 0 < micro_batch < before:
        micro_batch, note = before, f"encodes {before} windows at a time, as before"
    if note:
        report(TrainingProgress(note=note))
    optimizer = make_lars(model, settings.momentum, settings.weight_decay, settings.trust, settings.lars_exclude)
    # Micro-batches accumulate the encoder's gradients over several passes; DDP would average after each.
    trainer = make_trainer(model, optimizer, settings.compute.precision, process, ddp=not micro_batch)
    metrics: dict[str, float] = {}
    if saved is not None:
        trainer.load_state(saved, saved["step"])
        metrics = saved["validation"]

    def backward(batch: WindowBatch) -> Mapping[str, Tensor]:
        views = make_views(windows, batch, process, cropped, weight_dtype(settings.compute.precision))
        shots, B = len(windows.dense), len(batch.shots)
        noise = noise_of(order, batch.step, shots, process)
        seed = torch_seed(settings.run.seed, PRETRAIN_DROPOUT, batch.step, process.rank)
        loss = backward_windows(trainer, model, views, B, micro_batch, noise=noise, joins=batch.joins, seed=seed)
        return {"loss": loss.total, **loss.parts}

    def validate_epoch(epoch: int) -> dict[str, float]:
        nonlocal metrics
        every = settings.validate_epochs
        if not every or epoch % every or not videos:
            return {}
        metrics = validate(trainer, model, source, augmentation, videos)
        return metrics

    def save() -> None:
        if process.is_first:
            # Save the state first: a model alone cannot be resumed.
            state = {"step": trainer.step, **trainer.state(), "validation": metrics, "micro_batch": micro_batch}
            save_state(output, {"settings": json.dumps(identity), **state})
            training = {
                "stage": "pretrain",
                **settings_as_json(settings, without=_NOT_IN_IDENTITY),
                "step": trainer.step,
                "micro_batch": micro_batch,
                "precision": resolved_precision(settings.compute.precision, process.device),
                "data": {"path": str(settings.data.index), "videos": len(learned), "shots": len(order.rows)},
            }
            name = settings.encoder if features is None else features.encoder
            weights = BasslWeights(
                BasslSettings(name, model.crn.settings if model.crn is not None else None),
                plain_weights(model.encoder),
                plain_weights(model.crn),
                plain_weights(model.objective),
                training,
            )
            save_bassl_model(output / MODEL, weights)

    task = Task(
        batches=lambda step: source.batches(order, step),
        backward=backward,
        validate=validate_epoch,
        save=save,
        inputs=lambda batch: batch.shots,
        epoch_steps=order.epoch_steps,
        epochs=settings.epochs,
        items=settings.batch,
        rate=settings.base_rate * settings.batch / 256,
        warm_up=settings.warm_up,
        dropout_seed=(settings.run.seed, PRETRAIN_DROPOUT),
        progress=TrainingProgress(steps=order.steps),
        inputs_name="keyframes" if features is None else "features",
        rate_option="base_rate",
        log_steps=settings.run.log_steps,
        save_minutes=settings.save_minutes,
    )
    if trainer.step == task.steps:  # killed after its last state was saved and before its model was
        save()
    with logged_run(settings, process, trainer.step, micro_batch=micro_batch) as log:
        model.train()
        stopped = train(task, trainer, log=log, report=report, signals=signals)
    losses = trainer.mean_losses(order.epoch_steps)
    return PretrainResult(output / MODEL, trainer.step, task.steps, losses, metrics, stopped)


def window_order(settings: PretrainSettings, index: Index, videos: list[int], world_size: int) -> WindowOrder:
    """Return the windows of each step. Raises BasslError for splits without videos, or an impossible batch size."""
    if settings.batch % world_size:
        raise BasslError(f"a batch of {settings.batch} cannot be shared equally by {world_size} processes")
    index.check_splits(settings.data.splits)
    rows = index.rows(videos)
    order = WindowOrder(rows, settings.batch, settings.epochs, settings.run.seed)
    if not order.epoch_steps:
        raise BasslError(f"{index.path}: {len(rows)} shots do not fill a batch of {settings.batch}; lower `batch`")
    if settings.pretext.pseudo_boundary == "synthesized" and len(videos) < 2:
        raise BasslError(f"{index.path}: synthesized pseudo-boundaries need at least two videos")
    return order


def validation_videos(settings: PretrainSettings, index: Index) -> list[int]:
    """Return the videos with labels, and keyframes or features, of the split val, or of all splits if it has none."""
    stores, labeled = settings.data.features, index.videos_of(labeled=True)
    if stores:
        labeled = [video for video in labeled if stores_with(stores, index.video_ids[video])]
    else:
        labeled = [video for video in labeled if index.keyframe_sources[video] is not None]
    return [video for video in labeled if index.splits[video] == "val"] or labeled


def validate(
    trainer: Trainer,
    model: PretrainModel,
    source: FeatureWindows | KeyframeWindows,
    augmentation: AugmentationSettings,
    videos: list[int],
) -> dict[str, float]:
    """Return kNN precision and NMI of shots of labeled videos, and the AP of the PP head at the center shot: ``knn@k``,
    ``nmi@length`` and ``ap_pp``, as far as they are defined. kNN and NMI measure the encodings e if an encoder is
    trained; with features the contextualized center shots, or the contrastive head's outputs if there is no CRN. All
    processes call this; the first returns the metrics, the others an empty dictionary."""
    process, index, dtype = trainer.process, source.index, next(model.parameters()).dtype
    all_rows, scores = index.rows(videos), None
    first = np.cumsum([0, *(len(index.rows([video])) for video in videos)]).astype(np.int64)  # among all these rows
    model.eval()
    with torch.inference_mode(), trainer.autocast():
        if isinstance(source, KeyframeWindows):
            assert model.encoder is not None
            encodings = _encode_shots(source, model.encoder, all_rows, augmentation)

        def shots(rows: NDArray[np.int64]) -> Tensor:
            if isinstance(source, FeatureWindows):
                return source.on_device.read(all_rows[rows], dtype)
            return encodings[send(torch.from_numpy(rows), process.device)]

        def represent(rows: NDArray[np.int64]) -> Tensor:
            if model.crn is None:
                outputs: Tensor = model.objective.head_nce(shots(rows))
                return outputs
            neighbors = model.crn.settings.neighbors
            centers: Tensor = model.crn(shots(window_rows(first, rows, neighbors, "clip")))[0][:, neighbors]
            return centers

        if model.crn is not None or isinstance(source, FeatureWindows):
            represented = share_rows(process, len(all_rows), _WINDOWS, partial(map, represent))
            if isinstance(source, FeatureWindows):
                encodings = represented
            if model.objective.head_pp is not None and process.is_first:
                scores = model.objective.head_pp(represented).float().softmax(dim=1)[:, 1].cpu()
    model.train()
    return _measures(index, all_rows, encodings, scores) if process.is_first else {}


Parts = list[NDArray[np.int64]]  # rows, some at a time


def share_rows(process: Process, count: int, at_once: int, compute: Callable[[Parts], Iterable[Tensor]]) -> Tensor:
    """Return values (count, D) of rows, a block from each process; ``compute`` yields those of ``at_once`` at most."""
    share = np.array_split(np.arange(count), process.world_size)[process.rank]
    rows = share if len(share) else np.zeros(1, np.int64)  # the width is known from a value
    parts = np.array_split(rows, -(-len(rows) // at_once))
    values: Tensor | None = None
    for part, computed in zip(parts, compute(parts), strict=True):
        if values is None:
            values = computed.new_zeros(count, computed.shape[1])
        if len(share):
            values[int(part[0]) : int(part[-1]) + 1] = computed
    assert values is not None
    if process.world_size > 1:
        dist.all_reduce(values)  # rows of other processes are zero
    return values


def _encode_shots(
    source: KeyframeWindows, network: nn.Module, rows: NDArray[np.int64], augmentation: AugmentationSettings
) -> Tensor:
    """Return encodings (N, D_e) of rows, as `bassl encode` makes them: means over the centers of all keyframes."""
    process, dtype = source.process, next(network.parameters()).dtype
    mean, std = (send(torch.tensor(v).view(1, 3, 1, 1), process.device) for v in (augmentation.mean, augmentation.std))
    if process.world_size > 1:
        for buffer in network.buffers():  # on a CPU each process has its own BN statistics
            dist.broadcast(buffer, 0)

    def read(part: NDArray[np.int64]) -> Tensor:
        """Return the centers of all keyframes of rows, (n, N_k, 3, size, size) uint8."""
        reader = KeyframeReader(source.index)
        images, frames = np.arange(source.index.keyframes)[None], []
        for row in part.tolist():
            jpegs = reader.read(np.array([row]), images)[0]
            frames.append([resize_and_crop(reader.decoded(row, jpeg), augmentation.size) for jpeg in jpegs])
        return pinned(torch.from_numpy(np.array(frames)).permute(0, 1, 4, 2, 3), process.device)

    def encode(parts: Parts) -> Iterator[Tensor]:
        threads = source.threads
        for keyframes in read_ahead(read, (rows[part] for part in parts), threads=threads, ahead=2 * threads):
            images = keyframes.to(process.device, non_blocking=True)
            frames = ((images.flatten(0, 1).float() / 255 - mean) / std).to(dtype)
            encoded = network(frames.contiguous(memory_format=torch.channels_last)).to(dtype)
            yield encoded.view(*images.shape[:2], -1).mean(dim=1)

    return share_rows(process, len(rows), _SHOTS, encode)


def _measures(index: Index, rows: NDArray[np.int64], encodings: Tensor, scores: Tensor | None) -> dict[str, float]:
    representation = encodings.float().cpu().numpy()
    ends, video = index.targets(rows), index.video_of(rows)
    scenes = scene_ids(ends, video)
    measures = {f"knn@{k}": v for k, v in knn_precision(representation, scenes, video).pooled.items()}
    for length in SCENE_LENGTHS:
        # One start of K-Means is enough to watch a run.
        measures[f"nmi@{length}"] = scene_nmi(representation, scenes, length, restarts=1).nmi
    if scores is not None:
        labeled = np.isin(rows, index.rows_of(labeled=True))
        if ends[labeled].any():
            measures["ap_pp"] = average_precision(ends[labeled], scores.numpy()[labeled])
    return {name: value for name, value in measures.items() if not math.isnan(value)}
