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
    for task, episode, found in zip(tasks, episodes, repeats, strict=True):
        version, scenes = result_version(task.output), read_scene_list(task.output)
        segments = _with_repeats(scenes, found, episode)
        if segments != scenes.segments:
            scenes, _ = regrouped_with_corrections(scenes, Grouping(scenes=scenes.settings.get("scenes")), segments)
            replace_result(task.output, scenes, version)
    again = {result.output: result for result in run(tasks)}
    for i, (task, found) in enumerate(zip(tasks, repeats, strict=True)):
        lines = [f"{kind} {timecode(span.start)} to {timecode(span.end)}" for kind, span in sorted(found.items())]
        others = [tasks[first].video for first, second in same if second == i]
        lines += [f"shares most with {other}, as a cut of one film, and is not compared with it" for other in others]
        notes: tuple[str, ...] = (f"{task.video}: {', '.join(lines)}",) if lines else ()
        if i == 0 and not any(repeats):
            notes += ("no two of the videos share an intro or outro of 8 seconds",)
        now = again[task.output]
        status = now.status if now.status == "failed" else read[task.output].status
        again[task.output] = replace(now, status=status, notes=notes)
    return [again.get(result.output, result) for result in results]


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
