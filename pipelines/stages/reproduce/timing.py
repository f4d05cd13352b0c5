"""Measurement of pre-training speed on this machine, from a few steps on random images."""

from __future__ import annotations

import time

import numpy as np
import torch

from pipelines.stages.pretrain.data import PretextWindows, noise_of
from pipelines.stages.pretrain.settings import PretrainSettings
from pipelines.stages.pretrain.start import make_model
from pipelines.stages.pretrain.step import make_trainer, take_step
from pipelines.training.distributed import process_group
from pipelines.training.keyframe_windows import WindowOrder
from pipelines.training.limits import FEWER_WINDOWS, limits_in_one_line


def seconds_per_image(settings: PretrainSettings, steps: int = 2) -> float:
    """Seconds of a step of pre-training for each image that the encoder reads, on one device; reading keyframes is left
    out. One more step comes first and is not counted. Raises BasslError where the device or its memory is short."""
    with process_group(settings.device) as process, limits_in_one_line(FEWER_WINDOWS):
        _, model = make_model(settings, None, process)
        trainer = make_trainer(settings, model, process)
        windows = PretextWindows(np.zeros(1, np.int64), settings.pretext, settings.neighbours, settings.run.seed)
        size, shots = settings.augmentation.size, len(windows.dense)
        views = [
            torch.randn(settings.batch, count, 3, size, size, device=process.device)
            for count in (shots, len(windows.slow))
        ]
        noise = noise_of(WindowOrder(np.zeros(1, np.int64), settings.batch, 1, 0), 0, shots, process)

        def step() -> None:
            loss = take_step(
                trainer,
                lambda part: (views[0][part], views[1][part]),
                settings.batch,
                noise=noise if settings.pretext.needs_noise else None,
                joins=None,
                rate=0.01,
                seed=0,
            )
            loss.total.item()  # waits for the device

        step()
        begun = time.perf_counter()
        for _ in range(steps):
            step()
        return (time.perf_counter() - begun) / (steps * settings.batch * (shots + len(windows.slow)))
