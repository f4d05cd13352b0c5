"""Episodes of a series: what they repeat becomes segments of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.progress import ReportVideo, VideoProgress, VideoResult
from pipelines.results.replacing import replace_result, result_version
from pipelines.scenes import REPEATS, SceneData, Segment, timecode
from pipelines.settings import Grouping
from pipelines.stages.regroup import regrouped_with_corrections
from pipelines.stages.settings import PredictSettings
from pipelines.stores.episodes import add_episode, read_episodes
from pipelines.video.inputs import fingerprint
from pipelines.video.series import Episode, Span, find_repeats
from pipelines.video.shots import ReaderSettings, VideoProcess
from pipelines.video_jobs import VideoTask

Tasks = Sequence[VideoTask[PredictSettings]]
_NEAR_CUT = 0.25  # seconds from the end of a repeat to the cut where it is, at most
_CREDITS = {"opening_credits": "intro", "end_credits": "outro"}


def add_repeats(
    tasks: Tasks,
    results: Sequence[VideoResult],
    store: Path,
    run: Callable[[Tasks], list[VideoResult]],
    report: ReportVideo,
) -> list[VideoResult]:
    """Add what the episodes of a series repeat to their results, and ``run`` the tasks again for their pages and
    exports. Scenes end at both ends of an intro and an outro; corrections stay. Reads the videos whose hashes the
    ``store`` does not have. Returns the results, with notes on what was found. Raises BasslError for a store or result
    that cannot be read or written."""
    stored, read = read_episodes(store), {result.output: result for result in results if result.status != "failed"}
    tasks = [task for task in tasks if task.output in read]
    for task in tasks:
        if (name := str(fingerprint(task.video))) not in stored:  # its result was there before
            stored[name] = _read_again(task, report)
            add_episode(store, name, stored[name])
    episodes = [stored[str(fingerprint(task.video))] for task in tasks]
    repeats, same = find_repeats(episodes)
    notes: list[list[str]] = [[] for _ in tasks]
    for task, episode, found, lines in zip(tasks, episodes, repeats, notes, strict=True):
        version, scenes = result_version(task.output), read_scene_list(task.output)
        segments = _with_repeats(scenes, found, episode)
        spans = [f"{one.kind} {timecode(one.start)} to {timecode(one.end)}" for one in segments if one.kind in REPEATS]
        lines += [f"{task.video}: {', '.join(spans)}"] if spans else []
        if segments != scenes.segments:
            scenes, _ = regrouped_with_corrections(scenes, Grouping(scenes=scenes.settings.get("scenes")), segments)
            replace_result(task.output, scenes, version)
    for first, second in same:
        notes[second] += [
            f"{tasks[second].video}: shares most with {tasks[first].video}; two cuts of one film have no intro"
        ]
    if tasks and not any(repeats):
        notes[0] += ["no two of the videos share an intro or outro of 8 seconds"]
    for task, now, lines in zip(tasks, run(tasks), notes, strict=True):
        status = now.status if now.status == "failed" else read[task.output].status
        read[task.output] = replace(now, status=status, notes=tuple(lines))
    return [read.get(result.output, result) for result in results]


def _read_again(task: VideoTask[PredictSettings], report: ReportVideo) -> Episode:
    """Return the hashes of a video whose result needs no reading."""

    def show(done: float, total: float | None) -> None:
        report(VideoProgress(task.video_id, done, total))

    with VideoProcess(task.video, ReaderSettings(hashes=True), show) as reading:
        for _ in reading:
            pass
    assert reading.episode is not None
    return reading.episode


def _with_repeats(scenes: SceneData, repeats: dict[str, Span], episode: Episode) -> tuple[Segment, ...]:
    """Return the segments with these repeats, whose ends are at cuts if some are near, in place of earlier ones, and of
    credits that meet them."""
    last = scenes.shots[-1]
    cuts = {**{shot.start: shot.start_frame for shot in scenes.shots}, last.end: last.end_frame}

    def end_at(time: float) -> tuple[int, float]:
        nearest = min(cuts, key=lambda cut: abs(cut - time))
        if abs(nearest - time) <= _NEAR_CUT:
            return cuts[nearest], nearest
        return int(np.searchsorted(episode.times, time)), time

    new = []
    for kind, span in repeats.items():
        (first, start), (stop, end) = end_at(span.start), end_at(span.end)
        new.append(Segment(kind, first, stop, start, end))

    def is_kept(part: Segment) -> bool:
        meets = (one.kind == _CREDITS.get(part.kind) and one.start < part.end and part.start < one.end for one in new)
        return part.kind not in REPEATS and not any(meets)

    return tuple(sorted([*filter(is_kept, scenes.segments), *new], key=lambda part: part.start))
