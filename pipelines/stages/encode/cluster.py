"""Encoding the videos of an index on the workers of a Dask cluster, each in a child process that writes a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pipelines.errors import BasslError
from pipelines.models.encoder_options import absolute_encoder
from pipelines.options import settings_from, values_of
from pipelines.processes import Send
from pipelines.progress import ReportProgress
from pipelines.stages.encode.parts import StoreInParts
from pipelines.stages.encode.settings import EncodeSettings
from pipelines.stages.encode.video import encode_video, open_encoder
from pipelines.stores.index import Index, read_index
from pipelines.stores.lookup import store_path
from pipelines.video_jobs import run_on_dask


@dataclass(frozen=True)
class VideoResult:
    """Whether a video was encoded."""

    number: int
    status: Literal["done", "failed"]
    error: str = ""


@dataclass(frozen=True)
class VideoTask:
    """A video to encode."""

    video: Path  # its keyframe store, or folder of JPEG files
    video_id: str
    number: int  # in the index
    encoder: str  # id
    settings: EncodeSettings

    def to_json(self) -> dict[str, Any]:
        """The task as plain JSON values."""
        return vars(self) | {"video": str(self.video), "settings": values_of(self.settings)}

    def finished(self, fields: Mapping[str, Any]) -> VideoResult:
        """The result of a video whose part is written."""
        return VideoResult(self.number, "done")

    def failed(self, error: str) -> VideoResult:
        """The result of a video that failed."""
        return VideoResult(self.number, "failed", error)

    def clean_up(self) -> None:
        """Does nothing: the next run removes an incomplete part."""


def encode_on_dask(
    settings: EncodeSettings, index: Index, videos: Sequence[int], encoder: str, report: ReportProgress
) -> dict[int, str]:
    """Encode videos of an index into parts of its store; by video, why those failed that cannot be encoded. Raises
    BasslError where the cluster cannot be used."""
    settings = replace(settings, encoder=absolute_encoder(settings.encoder))
    assert settings.dask is not None
    tasks = [
        VideoTask(index.keyframe_sources[video] or index.path, index.video_ids[video], video, encoder, settings)
        for video in videos
    ]
    total, shots, failed = len(index.rows(videos)), 0, {}
    with closing(run_on_dask(tasks, work, settings.dask)) as results:
        for result in results:
            if result.status == "failed":
                failed[result.number] = result.error
            shots += len(index.rows([result.number]))
            report("encoding", shots, total)
    return failed


def work(message: dict[str, Any], send: Send) -> None:
    """Encode the video of a task; runs in a child process of a worker."""
    settings, video = settings_from(EncodeSettings, message["settings"]), message["number"]
    index = read_index(settings.index)
    encoder = open_encoder(settings, index, settings.device)
    if encoder.id != message["encoder"]:
        raise BasslError(f"{message['video_id']}: the worker has {encoder.id}, not {message['encoder']}")
    store = StoreInParts(store_path(settings.output, encoder.id), encoder.id, index, [video])
    store.keep(video, *encode_video(index, encoder, video, settings.workers or 1, lambda shots: None))
    send("end", {})
