"""Correcting scenes on the page: keys, the timeline, cuts at a frame, names, and saving."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.results.replacing import is_corrected
from pipelines.scenes import without_short
from pipelines.stages.regroup import regroup
from pipelines.stages.report import report
from tests import pages
from tests.browser.opening import (
    VARIABLE,
    Made,
    box_of,
    ends_shown,
    opened_page,
    opened_video,
    press,
    ready,
    reopened,
    resized,
    saved,
    shows_frame,
    slide,
    tile,
    video_time,
)
from tests.scenes_schema import SCHEMA


def selected(page: Page) -> int:
    return int(page.get_attribute("#track", "aria-valuenow") or "") - 1


# --- keys -----------------------------------------------------------------------------------------------------------


def test_keys_work_without_focus_and_move_the_video(view: Page, made: Made) -> None:
    ready(view)
    for keys, shot in [
        (["ArrowRight"] * 3, 3), (["ArrowLeft"], 2), (["n"], 4), (["n"], 5), (["p"], 4), (["ArrowDown"], 5),
        (["ArrowUp"], 4), (["End"], 7), (["p"], 5), (["Home"], 0), (["p"], 0),
    ]:  # fmt: skip
        press(view, *keys)
        assert selected(view) == shot, keys
        assert made.scenes.shots[shot].start <= video_time(view) < made.scenes.shots[shot].end


def test_comma_and_period_step_one_frame(view: Page) -> None:
    ready(view)
    press(view, "ArrowRight")
    assert shows_frame(view, 12)
    for key, frame in (("Period", 13), ("Period", 14), ("Comma", 13)):
        press(view, key)
        assert shows_frame(view, frame)
    expect(view.locator("#at")).to_contain_text("frame 13")


def test_space_and_k_play_and_pause_also_after_a_click_on_a_button_or_on_the_video(view: Page) -> None:
    ready(view)
    for key in ("k", "Space"):
        press(view, key)
        view.wait_for_function("() => !video.paused")
        press(view, "k")
        view.wait_for_function("() => video.paused")
    view.click("#frame-on")
    view.click("#larger")
    press(view, "Space")
    view.wait_for_function("() => !video.paused")
    assert view.get_attribute("#larger", "aria-pressed") == "true", "the button was not pressed again"
    view.click("#video")
    view.wait_for_function("() => video.paused")
    view.focus("#video")
    press(view, "Space")
    view.wait_for_timeout(150)
    assert not view.evaluate("video.paused"), "pressed once, not by the page and by the browser"


def test_brackets_work_where_they_need_altgr_or_option(view: Page) -> None:
    press(view, "n")
    for held in ("ctrlKey: true, altKey: true", "altKey: true"):
        event = f"new KeyboardEvent('keydown', {{ key: '[', {held}, bubbles: true }})"
        view.evaluate(f"document.body.dispatchEvent({event})")
    assert ends_shown(view)[0] == 0, "the scene from shot 2 begins a shot earlier, and no scene has less than one"


def test_text_fields_keep_their_keys_and_buttons_reached_with_tab_their_space(view: Page) -> None:
    view.focus("#filter-name")
    view.keyboard.type("s m n k")
    assert ends_shown(view) == [1, 3, 4, 6, 7]
    assert view.input_value("#filter-name") == "s m n k"
    assert view.evaluate("document.getElementById('video').paused")
    view.fill("#filter-name", "")
    view.focus("#threshold")
    press(view, "ArrowRight")
    assert (view.input_value("#threshold"), selected(view)) == ("0.51", 0)
    press(view, "n")
    assert selected(view) == 2
    view.focus("#filter-name")
    press(view, "Tab", "Space")
    assert view.is_checked("#filter-unreviewed")


def test_undo_and_save_work_in_every_field(view: Page) -> None:
    view.fill("#threshold-number", "0.15")
    press(view, "Control+z")
    assert (ends_shown(view), view.input_value("#threshold-number")) == ([1, 3, 4, 6, 7], "0.5")
    for keys, name in (("Control+s", "Wanted"), ("Control+S", "WITH CAPS LOCK")):
        press(view, "Enter", "e")
        view.fill(".name input", name)
        with view.expect_download() as download:
            press(view, keys)
        assert json.loads(download.value.path().read_text())["scenes"][0]["name"] == name


def test_scenes_are_split_and_merged_with_keys(view: Page) -> None:
    press(view, "n", "m")
    assert ends_shown(view) == [1, 4, 6, 7]
    press(view, "ArrowLeft", "s")
    assert ends_shown(view) == [1, 2, 4, 6, 7]
    press(view, "Shift+M")
    assert ends_shown(view) == [1, 4, 6, 7]
    press(view, "]", "]")
    assert (ends_shown(view), selected(view)) == ([3, 4, 6, 7], 4), "the selection follows, to move it again"
    press(view, "[", "[", "[")
    assert (ends_shown(view), selected(view)) == ([0, 4, 6, 7], 1)
    press(view, "[")
    assert ends_shown(view) == [0, 4, 6, 7], "no scene is emptied"
    tile(view, 3).focus()
    press(view, "ArrowRight")
    assert view.evaluate("document.activeElement.closest('.shot').shot") == selected(view), "the focus goes along"


# --- the video leads -------------------------------------------------------------------------------------------------


def test_list_and_timeline_follow_the_video_until_the_list_is_scrolled(view: Page) -> None:
    resized(ready(view), 1280, 560)
    view.evaluate("video.playbackRate = 4")
    press(view, "+", "+", "+", "Space")
    view.wait_for_function("() => document.querySelector('.shot.selected').shot >= 6", timeout=15_000)
    assert 0 < box_of(view.locator(".shot.selected .frame"))["y"] < 560
    assert view.locator(".track .here").evaluate("one => one.getBoundingClientRect().left") < 1280
    press(view, "Home")
    if view.evaluate("video.paused"):  # it had come to its end
        press(view, "Space")
    view.evaluate("video.playbackRate = 2")
    view.locator(".scene").first.dispatch_event("wheel")
    view.evaluate("scrollTo(0, 0)")
    view.wait_for_function("() => document.querySelector('.shot.selected').shot >= 5", timeout=15_000)
    assert view.evaluate("scrollY") == 0


# --- cuts, boundaries and the threshold -----------------------------------------------------------------------------


LATE = [0.5 + i / 24 for i in range(120)]


@pytest.mark.parametrize(
    ("times", "step", "sound"),
    [(VARIABLE, 1 / 7, 0.0), (LATE, 1 / 24, 6.0)],
    ids=["variable rate", "later than its sound"],
)
def test_a_scene_is_cut_at_the_frame_that_is_shown(
    window: BrowserContext, tmp_path: Path, times: list[float], step: float, sound: float
) -> None:
    with opened_video(window, tmp_path, 24, times, sound) as (scenes, page):
        press(page, "n", "n", "n", "Period", "Period", "Period")
        frame = scenes.shots[5].start_frame + 3
        assert shows_frame(page, frame)
        press(page, "c")
        assert ends_shown(page) == [1, 3, 4, 5, 7, 8]
        assert selected(page) == 6
        assert page.locator(".shot canvas").count() == 1, "its image is the player's"
        result = saved(page, tmp_path)
        jsonschema.validate(json.loads(result.read_text()), SCHEMA)
        first, second = read_scene_list(result).shots[5:7]
        assert (first.end_frame, second.start_frame) == (frame, frame)
        assert first.end == second.start == pytest.approx(scenes.shots[5].start + 3 * step, abs=1e-3)
        assert (first.score, second.score) == (1.0, scenes.shots[5].score)
        made = report(result, output=tmp_path / "again.html")
        assert (made.shots, made.warnings) == (9, ()), "a reader of videos finds the same shots"
        slide(page, 0.9)
        assert 5 in ends_shown(page), "a cut made by hand outlives the threshold"
        press(page, "Control+z", "Control+z")
        assert ends_shown(page) == [1, 3, 4, 6, 7]
        assert json.loads(saved(page, tmp_path).read_text()) == scenes.to_dict(tmp_path)


def test_a_cut_is_at_the_frame_that_is_shown_also_before_the_browser_has_reported_it(
    view: Page, tmp_path: Path
) -> None:
    ready(view)
    press(view, "Period")
    expect(view.locator("#at")).to_contain_text("frame 1")
    view.evaluate("() => { video.requestVideoFrameCallback = () => 0; }")
    press(view, "Period")
    expect(view.locator("#at")).to_contain_text("frame 2")  # the last one that is reported
    press(view, "Period")
    assert shows_frame(view, 3)
    view.click("#cut")
    result = read_scene_list(saved(view, tmp_path))
    assert [shot.start_frame for shot in result.shots][:3] == [0, 3, 12]
    assert is_corrected(result)


def test_a_cut_while_a_frame_is_held_begins_with_that_frame(window: BrowserContext, tmp_path: Path) -> None:
    times = [i / 24 if i <= 70 else i / 24 + 1 for i in range(120)]  # frame 70, in the middle of a shot
    with opened_video(window, tmp_path, 24, times) as (_, page):
        page.evaluate(f"video.currentTime = {times[70] + 0.6}")
        expect(page.locator("#at")).to_contain_text("00:00:02.917")
        press(page, "c")
        assert ends_shown(page) == [1, 3, 4, 5, 7, 8]
        first, second = read_scene_list(saved(page, tmp_path)).shots[4:6]
    assert first.end == second.start == pytest.approx(times[70], abs=1e-3)


def test_a_cut_at_the_first_frame_of_a_shot_is_a_split_there(view: Page) -> None:
    ready(view)
    press(view, "ArrowRight")
    assert shows_frame(view, 12)
    press(view, "c")
    assert ends_shown(view) == [0, 1, 3, 4, 6, 7]
    assert view.locator(".shot").count() == 8


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    page.mouse.move(*end)
    page.mouse.up()


def test_a_boundary_is_dragged_to_another_shot_in_one_step(view: Page, made: Made) -> None:
    box = box_of(view.locator("#track"))
    y = box["y"] + 90

    def place(shot: int) -> float:
        return box["x"] + box["width"] * made.scenes.shots[shot].end / made.scenes.video.duration

    drag(view, (place(3), y), (place(2) + 3, y))
    assert ends_shown(view) == [1, 2, 4, 6, 7]
    assert selected(view) == 3, "the video shows where the scene begins now"
    press(view, "Control+z")
    assert ends_shown(view) == [1, 3, 4, 6, 7]
    drag(view, (place(3), y), (box["x"] + 2, y))
    assert ends_shown(view) == [1, 2, 4, 6, 7], "the scene before keeps a shot"


# --- a part of a video ----------------------------------------------------------------------------------------------


@pytest.fixture
def part(window: BrowserContext, made: Made, tmp_path: Path) -> Iterator[Page]:
    """The page of the video's shots 3 to 6, frames 41 to 90, as of a prediction with --start and --end."""
    shots = [replace(shot, index=index) for index, shot in enumerate(made.scenes.shots[3:6])]
    facts = replace(made.scenes.video, duration=shots[-1].end, frames=shots[-1].end_frame)
    scenes = pages.grouped(shots, facts, start=shots[0].start, end=shots[-1].end)
    with opened_page(window, tmp_path, scenes, pages.noise(3), made.video) as seen:
        yield ready(seen.page)


def test_the_page_of_a_part_shows_that_part(part: Page) -> None:
    assert video_time(part) == pytest.approx(41 / 24, abs=1 / 24)
    for keys in ((), ("+", "End", "0")):
        press(part, *keys)
        resized(part, 1280)
        sides = "(parts) => parts.map((part) => part.getBoundingClientRect()).map(({ left, right }) => [left, right])"
        track, *bands = part.locator("#track svg, #track .scene-band").evaluate_all(sides)  # at once: it may be redrawn
        assert [bands[0][0], bands[-1][1]] == pytest.approx(track, abs=2)
    facts = dict(zip(*(part.locator(f"aside .facts {name}").all_text_contents() for name in ("dt", "dd")), strict=True))
    assert (facts["part"], facts["length"], facts["frames"]) == ("00:00:01.708 – 00:00:03.750", "00:00:02.042", "49")


def test_no_scene_is_cut_outside_the_part_that_was_read(part: Page) -> None:
    before = ends_shown(part)
    for time in (0.5, 4.5):
        part.evaluate("time => { video.currentTime = time; }", time)
        expect(part.locator("#at")).to_contain_text("not read")
        press(part, "c")
        assert part.inner_text("#status") == "This frame is in no scene."
        assert ends_shown(part) == before


# --- scenes that are left out ----------------------------------------------------------------------------------------


def covered(path: Path) -> list[tuple[int, int]]:
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    return [(scene.start_shot, scene.end_shot) for scene in read_scene_list(path).scenes]


@pytest.fixture
def gaps(window: BrowserContext, made: Made, tmp_path: Path) -> Iterator[Page]:
    """The page of `made` without its scenes of less than 0.8 s: shots 4 and 7 are in no scene."""
    left = without_short(made.scenes.scenes, 0.8)
    settings = {**made.scenes.settings, "min_scene": 0.8, "drop_short": True}
    with opened_page(window, tmp_path, replace(made.scenes, settings=settings, scenes=left)) as seen:
        yield seen.page


def test_dropped_scenes_are_not_listed_and_stay_so(gaps: Page, tmp_path: Path) -> None:
    assert gaps.inner_text("#count").startswith("3 scenes · 8 shots")
    assert gaps.locator(".scene .caption b").all_text_contents() == ["1", "2", "3", "4", "6", "7"]
    assert covered(saved(gaps, tmp_path)) == [(0, 2), (2, 4), (5, 7)]
    press(gaps, "n", "ArrowRight", "ArrowRight", "s")
    assert (selected(gaps), gaps.inner_text("#status")) == (4, "This shot is in no scene.")
    press(gaps, "n", "]")  # a correction elsewhere
    for page in (gaps, reopened(gaps)):
        assert covered(saved(page, tmp_path)) == [(0, 2), (2, 4), (6, 7)]


def test_merging_and_moving_boundaries_put_dropped_shots_into_scenes(gaps: Page, tmp_path: Path) -> None:
    press(gaps, "End", "p", "[")
    assert covered(saved(gaps, tmp_path)) == [(0, 2), (2, 4), (4, 7)]
    press(gaps, "Control+z")
    gaps.click(".merge >> nth=2")
    assert covered(saved(gaps, tmp_path)) == [(0, 2), (2, 7)]


def test_changing_the_threshold_drops_short_scenes_as_regroup_does(gaps: Page, tmp_path: Path) -> None:
    before = saved(gaps, tmp_path).rename(tmp_path / "before.json")
    for threshold in (0.3, 0.65, 0.15):
        slide(gaps, threshold)
        actual = regroup(before, threshold=threshold, drop_short=True)
        assert covered(saved(gaps, tmp_path)) == [(scene.start_shot, scene.end_shot) for scene in actual.scenes]
    gaps.fill("#min-scene", "99")
    assert gaps.inner_text("#status") == "No scene is 99 seconds or longer."


# --- the filter ----------------------------------------------------------------------------------------


def shown_scenes(page: Page) -> list[int]:
    return [int(number) for number in page.locator(".scene:not([hidden]) .number").all_text_contents()]


def test_scenes_can_be_filtered_by_name(view: Page) -> None:
    view.click(".rename >> nth=1")
    view.keyboard.type("The Chase")
    press(view, "Enter")
    for text, expected in (("chase", [2]), ("4", [4]), ("scene", [1, 3, 4, 5]), ("nothing", [])):
        view.fill("#filter-name", text)
        assert shown_scenes(view) == expected
        assert view.inner_text("#matching") == f"{len(expected)} of 5 scenes"
    view.fill("#filter-name", "chase")
    slide(view, 0.65)
    assert shown_scenes(view) == [2], "the filter holds while scenes change"
    view.fill("#filter-name", "")
    assert view.inner_text("#matching") == ""


def test_undo_and_redo_name_what_they_do_and_end_at_the_file(view: Page, made: Made, tmp_path: Path) -> None:
    ready(view)
    changes = [
        (lambda: press(view, "n", "n", "Shift+M"), "merge scenes 2 and 3"),
        (lambda: press(view, "ArrowLeft", "s"), "new scene from shot 4"),
        (lambda: press(view, "]"), "start of scene 3"),
        (lambda: slide(view, 0.625), "threshold 0.63"),
        (lambda: view.fill("#min-scene", "0.7"), "no scene shorter than 0.7 s"),
        (lambda: (press(view, "Enter", "e"), view.keyboard.type("x"), press(view, "Enter")), "name of scene 3"),
        (lambda: press(view, "Home", "Period", "c"), "new scene from frame 1"),
    ]
    for change, _ in changes:
        change()
    after = saved(view, tmp_path).read_text()
    for _, words in reversed(changes):
        assert view.get_attribute("#undo", "title") == f"Undo: {words}"
        assert view.get_attribute("#undo", "aria-label") == f"Undo: {words}"
        press(view, "Control+z")
        assert view.inner_text("#status") == f"Undone: {words}."
        assert view.get_attribute("#redo", "title") == f"Redo: {words}"
    assert view.is_disabled("#undo")
    assert json.loads(saved(view, tmp_path).read_text()) == made.scenes.to_dict(made.path.parent)
    press(view, *["Control+Shift+z"] * len(changes))
    assert view.is_disabled("#redo")
    assert saved(view, tmp_path).read_text() == after
