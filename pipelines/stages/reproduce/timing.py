"""How long the rows of a table take on this machine for MovieNet at full size, from steps that are timed here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from pipelines.baselines import SYSTEMS
from pipelines.baselines.lgss import LGSSTraining
from pipelines.baselines.segmentation import Labeled
from pipelines.baselines.siamese import SiameseTraining
from pipelines.models.encoders.torch_encoders import choose_device, trainable_encoder
from pipelines.models.networks.kinds import NETWORKS, make_shape
from pipelines.models.networks.torch_networks import build_network
from pipelines.stages.finetune.settings import FinetuneSettings
from pipelines.stages.pretrain.settings import PretrainSettings
from pipelines.stages.reproduce.planning import LABELED, PAPER_ENCODER, SHOTS, Line, PlannedRow
from pipelines.training.jobs import Machines

_TRAINED = LABELED * 190 // 318  # shots of the training videos
_WIDTH = 2048  # of the features of ResNet-50
_CUTS = 320  # shots of the video on which a baseline is timed: two steps of LGSS


def row_hours(rows: Sequence[PlannedRow], machines: Machines) -> list[tuple[str, float]]:
    """Return label and hours of each row that can be measured. Lines that several rows share count in each; lines that
    neither train nor encode, and the network ``relational``, are left out."""
    device = choose_device(machines.device or "auto")

    def hours(line: Line) -> float:
        processes = 1 if line.command == "baseline" else machines.world_size
        return _seconds(line, device) / processes / 3600

    return [(row.name, sum(map(hours, row.lines))) for row in rows if row.lines]


def _seconds(line: Line, device: torch.device) -> float:
    epochs, seeds = int(line.option("epochs") or 0), int(line.option("seeds") or 1)
    if line.command == "encode":
        return LABELED * 3 * _image_seconds(line.option("encoder"), device, training=False)
    if line.command == "pretrain":
        method, neighbors = line.option("method"), int(line.option("neighbors") or PretrainSettings().neighbors)
        images = 2 if method in ("simclr-instance", "simclr-temporal") else 2 * neighbors + 3
        encoder = line.option("encoder") or PAPER_ENCODER
        return epochs * SHOTS * images * _image_seconds(encoder, device, training=True)
    if line.command == "finetune":
        crn = line.option("crn")
        epochs = epochs or FinetuneSettings().hyperparameters(True).epochs
        return seeds * epochs * _TRAINED * _window_seconds(crn, device)
    if line.command == "baseline" and SYSTEMS[line.words[2]].trainer:
        trainings = seeds + 1  # choosing settings trains on two halves
        return trainings * _TRAINED * _training_seconds(line.words[2], device)
    return 0.0


def _timed(work: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of the second of two calls."""
    seconds = 0.0
    for _ in range(2):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - start
    return seconds


@cache
def _image_seconds(encoder: str, device: torch.device, training: bool) -> float:
    images = 64 if device.type == "cuda" else 4
    known = encoder if encoder.startswith(("resnet", "timm:")) else PAPER_ENCODER  # a run has the paper's
    network = trainable_encoder(known, pretrained=False).network.to(device).train(training)
    batch = torch.zeros(images, 3, 224, 224, device=device)

    def work() -> None:
        with torch.set_grad_enabled(training):
            output = network(batch)
        if training:
            output.sum().backward()

    return _timed(work, device) / images


@cache
def _window_seconds(crn: str, device: torch.device) -> float:
    kind = NETWORKS[crn]
    if kind.reads not in ("windows", "sequences"):
        return 0.0
    shape = make_shape(crn, _WIDTH)
    network, windows = build_network(crn, shape).to(device).train(), 64
    if kind.reads == "windows":
        batch = torch.zeros(windows, shape.window, _WIDTH, device=device)
    else:
        batch = torch.zeros(windows // 8, 8, shape.window, _WIDTH, device=device)
    return _timed(lambda: network(batch).sum().backward(), device) / windows


@cache
def _training_seconds(system: str, device: torch.device) -> float:
    """Return the seconds of training for each shot, over all epochs."""
    rng, baseline = np.random.default_rng(0), SYSTEMS[system]
    one: dict[str, Any]
    if system == "siamese":
        epochs, one = SiameseTraining().epochs, {"training": SiameseTraining(epochs=1)}
    else:
        epochs, one = baseline.training.get("epochs", LGSSTraining().epochs), {**baseline.training, "epochs": 1}
    one_epoch = replace(baseline, training=one)
    ends = (np.arange(_CUTS) % 12 == 11).astype(np.uint8)
    video = Labeled([rng.normal(size=(_CUTS, _WIDTH)).astype(np.float32)], ends)
    return _timed(lambda: one_epoch.default_settings([video], 0, device), device) * epochs / _CUTS
