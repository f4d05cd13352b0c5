"""Features of all shots of an index by one frozen encoder, computed once and stored under the encoder's id.

Each process of a job encodes its share of the videos (``bassl encode --gpus 8``), or the workers of a Dask cluster do.
On one kind of processor a store is the same, byte for byte, whatever their number and however often they are stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.movienet import KeyframeReader
from pipelines.errors import BasslError, SomeFailedError, StoreError, explain_missing_extra
from pipelines.files import check_output
from pipelines.models.encoder_loading import load_encoder
from pipelines.models.encoders.shot_encoder import ShotEncoder, encode_groups
from pipelines.options import resolve_settings
from pipelines.processes import cores
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress, VideoResult, no_progress
from pipelines.stages.settings import EncodeSettings
from pipelines.stores.features import feature_file, is_current, shots_checksum, write_features
from pipelines.stores.index import Index, read_index
from pipelines.training import Peer, broadcast_from_rank0, gather_objects, is_worker
from pipelines.video_jobs import VideoTask, run_video_tasks

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import EncodeOptions


@explain_missing_extra("this encoder, or a job of several processes,")
def encode_shots(
    settings: EncodeSettings | None = None,
    progress: ReportProgress | None = None,
    videos: Sequence[int] | None = None,
    **options: Unpack[EncodeOptions],
) -> Path:
    """Make the feature store of an index and an encoder: a folder with one file per video, ``<output>/<encoder id>/``.
    A file that exists is kept if it has the features of the video's shots in the index.

    ``progress`` is called in the first process only, with the shots encoded and in all, of its videos. ``videos`` are
    numbers in the index; None: as the settings say. Raises SomeFailedError for videos whose keyframes or files are
    damaged (the store has all others); BasslError for an unusable index, encoder, store or Dask cluster."""
    settings = resolve_settings(EncodeSettings, settings, options)
    report = progress or no_progress
    device = "cpu" if settings.parallel.dask else settings.compute.device  # with Dask only the encoder's id is needed
    if not is_worker():
        return _encode_share(settings, device, Peer(0, 1), videos, report)
    from pipelines.training.distributed import process_group  # optional dependency: torch

    with process_group(device) as process:
        return _encode_share(settings, str(process.device), process, videos, report)


def _encode_share(
    settings: EncodeSettings, device: str, process: Peer, videos: Sequence[int] | None, report: ReportProgress
) -> Path:
    """Encode this process's share of the videos, and wait for all processes; ``report`` is called in the first only."""
    index = read_index(settings.data.index)
    videos = index.videos_of(labeled=settings.labeled) if videos is None else videos
    if not videos:
        raise StoreError(f"{settings.data.index}: has no labeled videos; leave `labeled` out")
    index.check_keyframes(videos)
    encoder = _open_encoder(settings, index, device)
    if len(ids := set(gather_objects(process, encoder.id))) > 1:
        raise BasslError(f"processes of this job have different encoders: {', '.join(sorted(ids))}; name `precision`")
    store = settings.run.output / encoder.id

    def list_missing() -> tuple[list[int], list[str]]:
        """Return the videos without features of their shots in the store, and why files of others cannot be used."""
        missing, failed = list[int](), list[str]()
        check_output(store / "video.h5")
        for video in videos:
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
    share = sorted(missing, key=lambda video: -shots[video])[process.rank :: process.world_size]
    total, before = sum(shots[video] for video in share), 0

    def show_progress(state: VideoProgress) -> None:
        nonlocal before
        if state.result is not None:
            before += shots[index.video_ids.index(state.video_id)]
        if process.is_first:
            report("encoding", before + state.done, total)

    if settings.parallel.dask:
        encode_video = partial(_encode_on_worker, encoder.id)
    else:
        threads = settings.compute.workers or cores() // process.world_size or 1
        encode_video = partial(_encode_video, index, encoder, threads)
    names = [(index.keyframe_sources[video] or index.path, index.video_ids[video]) for video in share]
    tasks = [VideoTask(source, name, feature_file(store, name), settings) for source, name in names]
    results = run_video_tasks(tasks, encode_video, dask=settings.parallel.dask, progress=show_progress)
    failed += [result.error for result in results if result.status == "failed"]
    failures = gather_objects(process, failed)  # waits for all
    if failed := list(dict.fromkeys(line for lines in failures for line in lines)):
        what = f"{store}: {len(failed)} of {len(videos)} videos were not encoded; repair them and run again, or delete "
        what += "what is damaged and leave them out by `bassl build-index` with `only_complete=True`"
        raise SomeFailedError(what, tuple(failed))
    return store


def _open_encoder(settings: EncodeSettings, index: Index, device: str) -> ShotEncoder:
    return load_encoder(
        settings.encoder, device, index.keyframes, settings.preparation, settings.encoder_options, settings.precision
    )


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
    """Write features (N, D_e) and color (N, 180) of a video's shots. Raises BasslError for unreadable keyframes."""
    video = index.video_ids.index(task.video_id)
    rows = index.rows([video])

    def keyframes(group: NDArray[np.int64]) -> Iterator[list[NDArray[np.uint8]]]:
        reader = KeyframeReader(index)
        images = np.tile(np.arange(index.keyframes), (len(group), 1))
        for row, jpegs in zip(group.tolist(), reader.read(group, images), strict=True):
            yield [reader.decoded(row, jpeg) for jpeg in jpegs]

    groups = np.split(rows, range(encoder.shots_at_a_time, len(rows), encoder.shots_at_a_time))
    encodings, hues = [], []
    with closing(encode_groups(encoder, groups, keyframes, threads)) as encoded:
        for group, features, color in encoded:
            report(VideoProgress(task.video_id, int(group[0] - rows[0]), len(rows)))
            encodings.append(features)
            hues.append(color)
    features, color, shots = np.concatenate(encodings), np.concatenate(hues), shots_checksum(index, video)
    write_features(task.output.parent, encoder.id, task.video_id, features, shots=shots, color=color)
    return task.result(shots=len(rows))
