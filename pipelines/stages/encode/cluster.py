"""Encoding the videos of an index on the workers of a Dask cluster, each in a child process that writes a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pipelines.errors import BasslError
from pipelines.models.encoder_options import absolute_encoder
from pipelines.progress import ReportProgress, ReportVideo, VideoProgress, VideoResult
from pipelines.stages.encode.parts import StoreInParts
from pipelines.stages.encode.settings import EncodeSettings
from pipelines.stages.encode.video import encode_video, open_encoder
from pipelines.stores.index import Index, read_index
from pipelines.stores.lookup import store_path
from pipelines.video_jobs import VideoTask, run


def encode_on_dask(
    settings: EncodeSettings, index: Index, videos: Sequence[int], encoder: str, report: ReportProgress
) -> dict[int, str]:
    """Encode videos of an index into parts of its store; by video, why those failed that cannot be encoded. Raises
    BasslError where the cluster cannot be used."""
    settings = replace(settings, encoder=absolute_encoder(settings.encoder))
    numbers = {index.video_ids[video]: video for video in videos}
    total, shots = len(index.rows(videos)), 0
    tasks = [
        VideoTask(
            index.keyframe_sources[video] or index.path,
            name,
            store_path(settings.run.output, encoder).with_name(name),
            settings,
        )
        for name, video in numbers.items()
    ]

    def count(state: VideoProgress) -> None:
        nonlocal shots
        shots += len(index.rows([numbers[state.video_id]]))
        report("encoding", shots, total)

    results = run(tasks, partial(_encode, encoder), dask=settings.parallel.dask, progress=count)
    return {numbers[result.video_id]: result.error for result in results if result.status == "failed"}


def _encode(encoder_id: str, task: VideoTask[EncodeSettings], report: ReportVideo) -> VideoResult:
    """Encode the video of a task; runs in a child process of a worker."""
    settings = task.settings
    index = read_index(settings.index)
    video = index.video_ids.index(task.video_id)
    encoder = open_encoder(settings, index, settings.device)
    if encoder.id != encoder_id:
        raise BasslError(f"{task.video_id}: the worker has {encoder.id}, not {encoder_id}")
    store = StoreInParts(store_path(settings.run.output, encoder.id), encoder.id, index, [video])
    store.keep(video, *encode_video(index, encoder, video, settings.workers or 1, lambda shots: None))
    return task.result()
