"""Encoding the shots of an index: its videos shared among processes, or among the workers of a Dask cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.errors import BasslError, SomeFailedError, StoreError
from pipelines.files import check_writable
from pipelines.models.encoder_loading import load_encoder
from pipelines.models.encoders.options import absolute_encoder
from pipelines.models.encoders.shot_encoder import ShotEncoder, encode_groups
from pipelines.processes import cores
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress, VideoResult
from pipelines.stages.encode import EncodeSettings
from pipelines.stores.features import feature_file, is_current, shots_checksum, write_features
from pipelines.stores.index import Index, read_index
from pipelines.training.jobs import Peer, broadcast_from_rank0, gather
from pipelines.video_jobs import VideoTask, run_video_tasks


def encode(
    settings: EncodeSettings, device: str, report: ReportProgress, process: Peer, used: Sequence[int] | None
) -> Path:
    """Make a feature store; see :func:`pipelines.stages.encode.encode_shots`. ``device`` is where this process
    encodes; ``report`` is called in the first one only."""
    index = read_index(settings.data.index)
    used = index.videos_of(labelled=settings.labelled) if used is None else used
    if not used:
        raise StoreError(f"{settings.data.index}: has no labelled videos; leave `labelled` out")
    index.check_keyframes(used)
    encoder = _open_encoder(settings, index, device)
    store = settings.run.output / encoder.id

    def list_missing() -> tuple[list[int], list[str]]:
        """The videos without features of their shots in the store, and why files of others cannot be used."""
        missing, failed = list[int](), list[str]()
        check_writable(store / "video.h5")
        for video in used:
            path = feature_file(store, index.video_ids[video])
            try:
                if settings.run.overwrite or not is_current(path, encoder.id, shots_checksum(index, video)):
                    missing.append(video)
            except StoreError as error:
                failed.append(str(error))
        return missing, failed

    # Only the first process lists what is missing: others could see other files, and divide the work differently.
    missing, failed = broadcast_from_rank0(process, list_missing)
    # Long videos first, in turns: no process waits for another for longer than a video takes.
    shots = np.diff(index.first_row).tolist()
    own = sorted(missing, key=lambda video: -shots[video])[process.rank :: process.world_size]
    total, before = sum(shots[video] for video in own), 0

    def show(state: VideoProgress) -> None:
        nonlocal before
        if state.result is not None:
            before += shots[index.video_ids.index(state.video_id)]
        if process.is_first:
            report("encoding", before + state.done, total)

    if settings.parallel.dask:
        settings = replace(settings, encoder=absolute_encoder(settings.encoder))
        work = partial(_encode_on_worker, encoder.id)
    else:
        threads = settings.compute.workers or cores() // process.world_size or 1
        work = partial(_encode_video, index, encoder, threads)
    tasks = []
    for video in own:
        name = index.video_ids[video]
        tasks.append(VideoTask(index.keyframe_sources[video] or index.path, name, feature_file(store, name), settings))
    results = run_video_tasks(tasks, work, dask=settings.parallel.dask, progress=show)
    failed += [result.error for result in results if result.status == "failed"]
    failed = list(dict.fromkeys(line for lines in gather(process, failed) for line in lines))  # waits for all
    if failed:
        lacks = "lacks, or has earlier features of," if settings.run.overwrite else "lacks"
        what = f"{store}: {lacks} {len(failed)} of {len(used)} videos; repair them and run again, or delete what "
        what += "is damaged and leave them out by `bassl build-index` with `only_complete=True`"
        raise SomeFailedError(what, tuple(failed))
    return store


def _open_encoder(settings: EncodeSettings, index: Index, device: str) -> ShotEncoder:
    return load_encoder(settings.encoder, device, index.keyframes, settings.preparation, settings.encoder_options)


def _encode_on_worker(encoder_id: str, task: VideoTask[EncodeSettings], report: ReportVideo) -> VideoResult:
    """Encode the video of a task; runs in a child process of a Dask worker."""
    index = read_index(task.settings.data.index)
    encoder = _open_encoder(task.settings, index, task.settings.compute.device)
    if encoder.id != encoder_id:
        raise BasslError(f"{task.video_id}: the worker has {encoder.id}, not {encoder_id}")
    return _encode_video(index, encoder, task.settings.compute.workers or 1, task, report)


def _encode_video(
    index: Index, encoder: ShotEncoder, threads: int, task: VideoTask[EncodeSettings], report: ReportVideo
) -> VideoResult:
    """Write features (N, D_e) and colour (N, 180) of the shots of a video. Raises DatasetError or StoreError if a
    keyframe cannot be read."""
    video = index.video_ids.index(task.video_id)
    rows, local = index.rows([video]), threading.local()

    def keyframes(group: NDArray[np.int64]) -> Iterator[list[NDArray[np.uint8]]]:
        if not hasattr(local, "reader"):  # one for each thread
            local.reader = KeyframeReader(index)
        images = np.tile(np.arange(index.keyframes), (len(group), 1))
        for row, jpegs in zip(group.tolist(), local.reader.read(group, images), strict=True):
            yield [local.reader.decoded(row, jpeg) for jpeg in jpegs]

    groups = np.split(rows, range(encoder.shots_at_a_time, len(rows), encoder.shots_at_a_time))
    encodings, hues = [], []
    with closing(encode_groups(encoder, groups, keyframes, threads)) as encoded:
        for group, features, colour in encoded:
            report(VideoProgress(task.video_id, int(group[0] - rows[0]), len(rows)))
            encodings.append(features)
            hues.append(colour)
    features, colour = np.concatenate(encodings), np.concatenate(hues)
    write_features(task.output.parent, encoder.id, task.video_id, features, shots_checksum(index, video), colour)
    return task.result(shots=len(rows))
