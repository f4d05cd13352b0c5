"""Encoding the shots of an index: the videos shared among processes, their keyframes read and encoded by threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.errors import BasslError, StoreError
from pipelines.models.encoders import ShotEncoder, encode_groups, load_encoder
from pipelines.processes import cores
from pipelines.stages.encode.parts import StoreInParts
from pipelines.stages.encode.settings import EncodeProgress, EncodeSettings
from pipelines.stores.index import Index, read_index
from pipelines.stores.lookup import store_path
from pipelines.training.distributed import Process, any_process, first_decides, process_group

Report = Callable[[EncodeProgress], None]


def run(settings: EncodeSettings, report: Report, process: Process | None, used: Sequence[int] | None) -> Path:
    """Make a feature store; see :func:`pipelines.stages.encode.encode_shots`."""
    with process_group(settings.device) if process is None else nullcontext(process) as joined:
        return _encode(settings, joined, report if joined.is_first else lambda state: None, used)


def _encode(settings: EncodeSettings, process: Process, report: Report, used: Sequence[int] | None) -> Path:
    index = read_index(settings.index)
    used = index.videos_of(labelled=settings.labelled) if used is None else used
    if not used:
        raise StoreError(f"{settings.index}: has no labelled videos; leave --labelled out")
    index.check_keyframes(used)
    device = str(process.device)
    encoder = load_encoder(settings.encoder, device, index.keyframes, settings.preparation, settings.encoder_options)
    store = StoreInParts(store_path(settings.folder, encoder.id), encoder.id, index, used)
    # Only the first process looks what is there: others could see it while it changes, and divide the work otherwise.
    missing = first_decides(process, lambda: store.begin(settings.overwrite))
    if not missing:
        return store.path
    # Long videos first, in turns: no process waits for another for longer than a video takes.
    missing.sort(key=lambda video: -len(index.rows([video])))
    threads = settings.workers or max(1, cores() // process.world_size)
    own = missing[process.rank :: process.world_size]
    fault: BasslError | None = None
    try:
        _encode_videos(index, encoder, own, threads=threads, keep=store.keep, report=report)
    except BasslError as error:
        fault = error
    failed = any_process(process, fault is not None)  # waits until all have done their share
    if fault is not None:
        raise fault
    if failed:
        raise BasslError(f"{store.path}: another process of this job could not do its share; what is done is kept")
    first_decides(process, store.join)
    return store.path


def _encode_videos(
    index: Index,
    encoder: ShotEncoder,
    videos: Sequence[int],
    *,
    threads: int,
    keep: Callable[[int, NDArray[np.float32], NDArray[np.float32]], None],
    report: Report,
) -> None:
    """Encode videos; ``keep`` is called with each video, its features (N, D_e) and colour (N, 180)."""
    local = threading.local()

    def groups() -> Iterator[tuple[int, NDArray[np.int64]]]:
        for video in videos:
            rows = index.rows([video])
            for first in range(0, len(rows), encoder.shots_at_a_time):
                yield video, rows[first : first + encoder.shots_at_a_time]

    def keyframes(group: tuple[int, NDArray[np.int64]]) -> Iterator[list[NDArray[np.uint8]]]:
        # A reader is for one thread; a new one for each video has one file open.
        if getattr(local, "video", None) != group[0]:
            local.video, local.reader = group[0], KeyframeReader(index)
        return _keyframes(local.reader, group[1])

    total, shots, done = len(index.rows(videos)), 0, 0
    features: list[NDArray[np.float32]] = []
    colour: list[NDArray[np.float32]] = []
    with closing(encode_groups(encoder, groups(), keyframes, threads)) as encoded:
        for (video, rows), encodings, colours in encoded:
            features.append(encodings)
            colour.append(colours)
            shots += len(rows)
            if rows[-1] + 1 == index.span(video).stop:
                keep(video, np.concatenate(features), np.concatenate(colour))
                features, colour, done = [], [], done + 1
            report(EncodeProgress(shots, total, done, len(videos)))


def _keyframes(reader: KeyframeReader, rows: NDArray[np.int64]) -> Iterator[list[NDArray[np.uint8]]]:
    """The keyframes of shots of one video, a shot at a time."""
    images = np.tile(np.arange(reader.index.keyframes), (len(rows), 1))
    for row, jpegs in zip(rows.tolist(), reader.read(rows, images), strict=True):
        yield [reader.decoded(row, jpeg) for jpeg in jpegs]
