"""Episodes of a series: what they repeat becomes segments of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.files import is_file
from pipelines.progress import ReportVideo, VideoProgress
from pipelines.results.replacing import replace_result, result_version
from pipelines.scenes import Segment, timecode
from pipelines.settings import Grouping
from pipelines.stages.regroup import regrouped_with_corrections
from pipelines.stages.settings import PredictSettings
from pipelines.stores.episodes import add_episode, read_episodes
from pipelines.video.inputs import fingerprint
from pipelines.video.series import Episode, Span, find_repeats
from pipelines.video.shots import ReaderSettings, VideoProcess
from pipelines.video_jobs import VideoTask

_CREDITS = {"opening_credits": "intro", "end_credits": "outro"}


def add_repeats(
    tasks: Sequence[VideoTask[PredictSettings]], store: Path, report: ReportVideo
) -> dict[Path, tuple[str, ...]]:
    """Find what the episodes of a series repeat, and add it to their results, in which scenes end at both ends of an
    intro and an outro; corrections stay. Reads the videos whose hashes the ``store`` does not have. Returns lines on
    what was found, by result. Raises BasslError for a store or result that cannot be read or written."""
    tasks, stored = [task for task in tasks if is_file(task.output)], read_episodes(store)
    for task in tasks:
        if (name := str(fingerprint(task.video))) not in stored:
            stored[name] = _read_again(task, report)
            add_episode(store, name, stored[name])
    episodes = [stored[str(fingerprint(task.video))] for task in tasks]
    found, same = find_repeats(episodes)
    notes: dict[Path, tuple[str, ...]] = {task.output: () for task in tasks}
    for task, episode, repeats in zip(tasks, episodes, found, strict=True):
        version = result_version(task.output)
        scenes = read_scene_list(task.output)
        segments = _with_repeats(scenes.segments, repeats, episode)
        if segments != scenes.segments:
            scenes, _ = regrouped_with_corrections(scenes, Grouping(scenes=scenes.settings.get("scenes")), segments)
            replace_result(task.output, scenes, version)
        if repeats:
            spans = (f"{kind} {timecode(one.start)} to {timecode(one.end)}" for kind, one in sorted(repeats.items()))
            notes[task.output] += (f"{task.video}: {', '.join(spans)}",)
    for first, second in same:
        line = (
            f"{tasks[second].video}: shares most with {tasks[first].video}, as a cut of one film; not compared with it"
        )
        notes[tasks[second].output] += (line,)
    if tasks and not any(found):
        notes[tasks[0].output] += ("no two of the videos share an intro or outro of 8 seconds",)
    return notes


def _read_again(task: VideoTask[PredictSettings], report: ReportVideo) -> Episode:
    """Return the hashes of a video whose result needs no reading."""

    def show(done: float, total: float | None) -> None:
        report(VideoProgress(task.video_id, done, total))

    with VideoProcess(task.video, ReaderSettings(hashes=True), show) as reading:
        for _ in reading:
            pass
    assert reading.episode is not None
    return reading.episode


def _with_repeats(segments: Sequence[Segment], repeats: Mapping[str, Span], episode: Episode) -> tuple[Segment, ...]:
    """Return segments with these repeats in place of earlier ones, and of credits that meet them."""
    new = []
    for kind, span in repeats.items():
        first, stop = np.searchsorted(episode.times, [span.start, span.end]).tolist()
        new.append(Segment(kind, first, stop, span.start, span.end))

    def is_kept(part: Segment) -> bool:
        meets = (one.kind == _CREDITS.get(part.kind) and one.start < part.end and part.start < one.end for one in new)
        return part.kind not in ("intro", "outro", "recap") and not any(meets)

    return tuple(sorted([*filter(is_kept, segments), *new], key=lambda part: part.start))
