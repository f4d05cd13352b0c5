"""Review of the scenes of a video: its page at the next look, or where to look next, and answers as pins."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pipelines.errors import BasslError, count
from pipelines.models.scenes.review import WINDOW, expected_f1, review as review_state
from pipelines.models.scenes.scene_ends import with_scenes
from pipelines.options import with_options
from pipelines.outputs.opening import open_scenes
from pipelines.outputs.page import shows
from pipelines.progress import ReportProgress, VideoResult
from pipelines.scenes import SceneData, group_shots, shot_ranges
from pipelines.settings import Grouping
from pipelines.stages.regroup import regrouped
from pipelines.stages.report import page_task, write_page
from pipelines.stages.settings import ReportSettings

S = TypeVar("S", bound=SceneData)


@dataclass(frozen=True)
class Look:
    """Range of shots for a person to look at next: the window whose answers are expected to raise F1 most."""

    start_shot: int
    end_shot: int
    """The half-open range of shots; a cut is between each two of them."""
    ends: tuple[int, ...]
    """Shots of the range that end scenes now, except for its last shot: the answers, if nobody corrects them."""
    expected_f1: float
    """F1 to expect of all scenes as they are now, 0 to 1: an estimate from scores and pins, see docs/review.md."""


@dataclass(frozen=True)
class ReviewResult:
    """Page of a review."""

    page: Path
    url: str
    """The address of the page in review mode."""
    opened: bool
    """Whether a browser was started with it."""
    written: VideoResult | None
    """The result of `report`; None if the page was there and shows the same scenes."""


def review(
    source: SceneData | Path | str,
    settings: ReportSettings = ReportSettings(),
    progress: ReportProgress | None = None,
    **options: Any,
) -> ReviewResult:
    """Open the page of a video's scenes in the browser, in review mode; write it as `report` does, unless it is
    there and shows the same scenes.

    Without a display no browser is started, except one that the environment variable ``BROWSER`` names. Arguments and
    errors as for `report`; a page with true scene ends is written in any case.
    """
    settings = with_options(settings, **options)
    opened = open_scenes(source, settings.listed.video)
    task = page_task(opened.result, settings)
    page = task.output
    is_current = settings.matching.truth is None and shows(page, opened.scenes)
    written = None if is_current else write_page(task, opened, progress)
    url = page.resolve().as_uri() + "#review"
    has_display = sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    can_open = bool(has_display or os.environ.get("BROWSER"))  # else it could be a browser in the terminal
    return ReviewResult(page, url, can_open and webbrowser.open(url), written)


def next_look(scenes: SceneData, shots: int = WINDOW) -> Look | None:
    """Return the next look, of at most so many shots, or None if all cuts are pinned. Raises BasslError for less than
    two shots."""
    if shots < 2:
        raise BasslError(f"a look shows two shots or more, not {shots}")
    state = review_state([shot.score for shot in scenes.shots], _answers(scenes), shots)
    if state.window is None:
        return None
    start, stop = state.window
    ends = sorted(shot - 1 for shot in _group_starts(scenes) if shot > 0)
    f1 = expected_f1(state.probabilities, np.isin(np.arange(len(state.probabilities)), ends))
    return Look(start, stop, tuple(shot for shot in ends if start <= shot < stop - 1), f1)


def pinned(scenes: S, ends: Iterable[int], joined: Iterable[int]) -> S:
    """Return the scenes after a person's answers, which no setting changes any more.

    The threshold moves to the one with the best expected F1, given all pins. Scenes of a fixed number, or corrected by
    hand beyond pins, change only at the answers.

    Args:
        ends: shots with which scenes end, by index.
        joined: shots with which no scene ends.

    Raises:
        BasslError: for a shot in both, or that is not before another shot.
    """
    answers = {int(shot): True for shot in ends}
    refused = {int(shot) for shot in joined}
    if both := sorted(refused & set(answers)):
        raise BasslError(f"shot {both[0]} cannot both end a scene and be joined to the next shot")
    answers |= dict.fromkeys(refused, False)
    last = len(scenes.shots) - 1
    if outside := [shot for shot in answers if not 0 <= shot < last]:
        reason = "the video ends with it" if outside[0] == last else f"the video has {count(last + 1, 'shot')}, from 0"
        raise BasslError(f"shot {outside[0]} cannot be pinned: {reason}")
    starts = _group_starts(scenes)
    by_hand = scenes.settings.get("scenes") is not None or scenes.settings.get("edited_by_hand") is True
    shots = tuple(replace(shot, pinned=answers.get(i, shot.pinned)) for i, shot in enumerate(scenes.shots))
    scenes = replace(scenes, shots=shots)
    if not by_hand:
        threshold = review_state([shot.score for shot in shots], _answers(scenes)).threshold
        return regrouped(scenes, Grouping(threshold=threshold))
    for shot, is_end in answers.items():
        if is_end:
            starts.setdefault(shot + 1, True)
        else:
            starts.pop(shot + 1, None)
    groups = group_shots(shots, [*(shot - 1 for shot in sorted(starts) if shot > 0), last])
    changed = [group for group in groups if starts[group.start_shot]]
    by_rule = regrouped(scenes, Grouping())
    if shot_ranges(by_rule.scenes) == shot_ranges(changed):
        return by_rule
    numbered = tuple(replace(scene, index=index) for index, scene in enumerate(changed))
    return with_scenes(scenes, numbered, {**by_rule.settings, "edited_by_hand": True})


def _answers(scenes: SceneData) -> dict[int, bool]:
    return {i: shot.pinned for i, shot in enumerate(scenes.shots[:-1]) if shot.pinned is not None}


def _group_starts(scenes: SceneData) -> dict[int, bool]:
    """Return the first shot of each scene, and of each group of shots in no scene, with whether it is a scene."""
    starts, stop = {}, 0
    for scene in scenes.scenes:
        if scene.start_shot > stop:
            starts[stop] = False
        starts[scene.start_shot], stop = True, scene.end_shot
    if stop < len(scenes.shots):
        starts[stop] = False
    return starts
