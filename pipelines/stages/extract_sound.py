"""Extracting features of sound: videos in, a folder with one file of sound features per video out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from pipelines.errors import BasslError
from pipelines.files import check_output
from pipelines.options import resolve_settings
from pipelines.processes import cores
from pipelines.progress import ReportVideo, VideoResult
from pipelines.stages.settings import SoundSettings
from pipelines.stores.features import feature_file, is_current, shots_checksum, write_features
from pipelines.stores.index import Index, read_index
from pipelines.video.inputs import find_videos, unchanged, video_ids
from pipelines.video.sound import SOUND, shot_sounds
from pipelines.video_jobs import VideoTask, run_video_tasks

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import SoundOptions


def extract_sound(
    inputs: Path | str | Sequence[Path | str],
    settings: SoundSettings | None = None,
    progress: ReportVideo | None = None,
    **options: Unpack[SoundOptions],
) -> list[VideoResult]:
    """Extract features of the sound of videos (files, folders and glob patterns): mean and standard deviation of 64
    log-mel energies over each shot. Videos are looked up in the index by the ids that `extract_keyframes` gives them. A
    file that exists is kept if it is of the same shots. Returns one result for each video, in the order of their names;
    a video without sound has failed. Raises BasslError for inputs, an index or a folder that cannot be used."""
    settings = resolve_settings(SoundSettings, settings, options)
    videos = find_videos(inputs)
    index = read_index(settings.data.index)
    names = zip(videos, video_ids(videos), strict=True)
    tasks = [VideoTask(video, name, feature_file(settings.run.output, name), settings) for video, name in names]
    check_output(settings.run.output / "video.h5")
    existing, jobs = partial(_existing_result, index), settings.parallel.jobs or cores()
    return run_video_tasks(tasks, _extract, existing=existing, jobs=jobs, progress=progress)


def _existing_result(index: Index, task: VideoTask[SoundSettings]) -> VideoResult | None:
    """Return the result of a video with a file, or None. Raises BasslError if that is damaged, or it is not indexed."""
    if task.video_id not in index.video_ids:
        raise BasslError(f"{task.video}: {index.path} has no video with the id {task.video_id}")
    number = index.video_ids.index(task.video_id)
    if task.settings.run.overwrite or not is_current(task.output, SOUND, shots_checksum(index, number)):
        return None
    return task.result("kept", shots=len(index.rows([number])))


def _extract(task: VideoTask[SoundSettings], report: ReportVideo) -> VideoResult:
    """Write the sound features of a video; runs in a child process."""
    index = read_index(task.settings.data.index)
    number = index.video_ids.index(task.video_id)
    seconds = index.seconds[index.span(number)]
    if not np.isfinite(seconds).all():
        raise BasslError(f"{task.video}: {index.path} has no times in seconds for {task.video_id}; extract keyframes")
    warnings: list[str] = []
    with unchanged(task.video):
        sounds = shot_sounds(task.video, seconds, task.seconds_to(report), warnings.append)
    write_features(task.settings.run.output, SOUND, task.video_id, sounds, shots=shots_checksum(index, number))
    return task.result(shots=len(sounds), warnings=tuple(warnings))
