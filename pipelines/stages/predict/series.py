"""Episodes of a series: what they repeat becomes segments of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.progress import ReportVideo, VideoResult
from pipelines.results.replacing import replace_result, result_version
from pipelines.scenes import REPEATS, SceneData, Segment, timecode
from pipelines.settings import Grouping, ScenesOutput
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
    exports. Scenes end at both ends of an intro and an outro; corrections stay. Returns the results, with notes on what
    was found. Raises BasslError for a store or result that cannot be read or written."""
    by_output = {result.output: result for result in results}
    tasks = [task for task in tasks if by_output[task.output].status != "failed"]
    episodes = _episodes(tasks, store, report)
    repeats, same = find_repeats(episodes)
    notes: list[list[str]] = [[] for _ in tasks]
    for task, episode, found, lines in zip(tasks, episodes, repeats, notes, strict=True):
        version, scenes = result_version(task.output), read_scene_list(task.output)
        segments = _with_repeats(scenes, found, episode)
        if segments != scenes.segments:
            scenes, _ = regrouped_with_corrections(scenes, Grouping(scenes=scenes.settings.get("scenes")), segments)
            replace_result(task.output, scenes, version)
        spans = [f"{one.kind} {timecode(one.start)} to {timecode(one.end)}" for one in segments if one.kind in REPEATS]
        lines += [f"{task.video}: {', '.join(spans)}"] * bool(spans)
    for first, second in same:
        most = f"shares most with {tasks[first].video}; two cuts of one film have no intro"
        notes[second].append(f"{tasks[second].video}: {most}")
    if tasks and not any(repeats):
        notes[0].append("no two of the videos share an intro or outro of 8 seconds")
    written = [replace(task, replaces=ScenesOutput()) for task in tasks]  # not to be read again with --overwrite
    for now, lines in zip(run(written), notes, strict=True):
        status = now.status if now.status == "failed" else by_output[now.output].status
        by_output[now.output] = replace(now, status=status, notes=tuple(lines))
    return list(by_output.values())


def _episodes(tasks: Tasks, store: Path, report: ReportVideo) -> list[Episode]:
    """Return the hashes of the videos, read now for those whose results need no reading."""
    stored, names = read_episodes(store), [str(fingerprint(task.video)) for task in tasks]
    for task, name in zip(tasks, names, strict=True):
        if name not in stored:
            with VideoProcess(task.video, ReaderSettings(hashes=True), task.seconds_to(report)) as reading:
                for _ in reading:
                    pass
            stored[name] = reading.episode
            add_episode(store, name, stored[name])
    return [stored[name] for name in names]


def _with_repeats(scenes: SceneData, repeats: dict[str, Span], episode: Episode) -> tuple[Segment, ...]:
    """Return the segments with repeats, whose ends move to near cuts, in place of earlier ones and their credits."""
    last = scenes.shots[-1]
    cuts = {shot.start: shot.start_frame for shot in scenes.shots} | {last.end: last.end_frame}

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
