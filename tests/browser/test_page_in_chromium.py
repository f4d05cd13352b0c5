"""The page in a real browser: its content, controls and saved files, and that it sends nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.models.scenes import choose_scene_ends
from pipelines.scenes import Transition, group_shots, timecode
from pipelines.stages.scene_list import load_scenes
from tests import pages, videos
from tests.browser.opening import (
    VARIABLE,
    Made,
    box_of,
    ends_shown,
    faults,
    opened,
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

HOSTILE = "</script><img src=x onerror=\"window.harmed = 1\"> & 'name'"


# --- what it shows --------------------------------------------------------------------------------------------------


def test_scenes_are_listed_with_shots_times_and_images(view: Page, made: Made) -> None:
    assert ends_shown(view) == [scene.end_shot - 1 for scene in made.scenes.scenes]
    for scene, shown in zip(made.scenes.scenes, view.locator(".scene").all(), strict=True):
        times = f"{scene.start_timecode} – {scene.end_timecode}"
        assert shown.locator(".number").get_attribute("title") == f"{times} · confidence {scene.confidence:.2f}"
        assert times in (shown.text_content() or "")
        (length,) = re.findall(r"(\d\.\d) s", shown.inner_text())
        assert float(length) == pytest.approx(scene.end - scene.start, abs=0.0501)
    view.wait_for_function("() => document.querySelectorAll('.shot img[src]').length === 8")
    assert view.evaluate("[...document.images].filter(one => one.src).every(one => one.naturalWidth === 320)")
    assert view.evaluate("video.poster.startsWith('data:image/webp;base64,')")
    assert view.inner_text("h1") == "video #1 (50%).mp4"
    assert view.inner_text("#count") == "5 scenes · 8 shots · 0:05"
    assert "320 × 180" in (view.text_content("#facts") or "")
    first_sight = view.inner_text("body")
    assert not [word for word in ("320 × 180", "score ", "confidence", "transitions") if word in first_sight]
    assert view.locator(".track .scene-band").count() == 5


def test_transitions_are_marked_between_shots(window: BrowserContext, tmp_path: Path) -> None:
    plain = pages.invented(6)
    kinds = {1: "dissolve", 2: "cut", 3: "fade"}
    shots = tuple(
        replace(shot, transition=Transition(kinds[shot.index], 100, 112, 4.0, 4.5)) if shot.index in kinds else shot
        for shot in plain.shots
    )
    with opened_page(window, tmp_path, replace(plain, shots=shots)) as seen:
        marks = seen.page.locator(".transition")
        assert marks.evaluate_all("all => all.map(one => [one.closest('.shot').shot, one.title])") == [
            [1, "dissolve, frames 100–111"],
            [3, "fade, frames 100–111"],
        ]
        assert read_scene_list(saved(seen.page, tmp_path)).shots == shots


def test_names_are_shown_as_text_only(window: BrowserContext, tmp_path: Path) -> None:
    plain = pages.invented(5)
    first, *others = plain.scenes
    scenes = replace(
        plain,
        video=replace(plain.video, path=HOSTILE.replace("/", "\\")),
        settings={**plain.settings, HOSTILE: HOSTILE},
        scenes=(replace(first, name=HOSTILE), *others),
    )
    with opened_page(window, tmp_path, scenes, pages.noise(5), save_as=HOSTILE.replace("/", "")) as seen:
        page = seen.page
        assert page.inner_text(".scene .name >> nth=0") == HOSTILE
        assert HOSTILE in (page.text_content("aside") or "")
        page.click(".rename >> nth=0")
        assert page.input_value(".name input") == HOSTILE
        page.keyboard.press("Enter")
        assert page.evaluate("window.harmed") is None
        assert page.locator("img[onerror]").count() == 0


def test_the_page_opens_with_three_thousand_shots(window: BrowserContext, tmp_path: Path) -> None:
    scenes = pages.invented(3000)
    with opened_page(window, tmp_path, scenes, pages.noise(60, 32, 18) * 50) as seen:
        page = seen.page
        assert page.locator(".shot").count() == 3000
        page.wait_for_selector(".shot img[src]")
        assert page.locator(".shot img[src]").count() < 600, "images far away are not loaded yet"
        page.evaluate("document.querySelector('.scene:last-child').scrollIntoView()")
        page.wait_for_selector(".scene:last-child .shot:last-child img[src]")
        slide(page, 0.8)
        expected = choose_scene_ends(
            np.array([shot.score for shot in scenes.shots]), np.array([shot.end for shot in scenes.shots]), 0.8
        )
        assert ends_shown(page) == expected


def test_a_page_without_images_and_video_says_so(window: BrowserContext, tmp_path: Path) -> None:
    with opened_page(window, tmp_path, pages.invented(6)) as seen:
        assert "was not found when this page was made" in seen.page.inner_text("#video-note")
        assert not seen.page.is_visible("#video")
        assert not seen.page.is_visible(".shot img >> nth=0")
        assert seen.page.locator(".shot").count() == 6


def test_a_page_that_is_a_file_says_that_its_video_cannot_be_shown_and_cuts_nothing(
    window: BrowserContext, tmp_path: Path
) -> None:
    video = videos.write_video(tmp_path / "movie.avi", videos.images(120, pages.CUTS), codec="mpeg4")
    with opened_page(window, tmp_path, videos.scenes_of(video, pages.CUTS), [], video) as seen:
        page = seen.page
        expect(page.locator("#video-note")).to_contain_text(
            "This browser cannot show movie.avi, or it is not there. bassl review makes a copy that it can show."
        )
        before = ends_shown(page)
        press(page, "c")
        assert page.is_hidden("#cut")
        assert ends_shown(page) == before
        tile(page, 3).click()
        assert tile(page, 3).get_attribute("aria-current") == "true"


# --- the slider -----------------------------------------------------------------------------------------------------


def test_the_page_groups_shots_by_the_rule_of_predict(view: Page) -> None:
    """Hundreds of videos at once, many with scores that are the same or lie on the threshold."""
    rng = np.random.default_rng(3)
    cases = []
    for _ in range(400):
        shots = int(rng.integers(1, 60))
        digits = int(rng.integers(1, 9))
        ends = np.round(rng.uniform(0.04, 6, shots).cumsum(), int(rng.integers(1, 7)))
        ends = np.maximum.accumulate(ends + np.arange(shots) * 1e-3)
        scores = np.round(rng.uniform(0, 1, shots), digits)
        threshold = round(float(rng.uniform(0.01, 0.99)), int(rng.integers(1, 4))) or 0.5
        threshold = min(max(threshold, 0.01), 0.99)
        shortest, longest = rng.choice([0.0, 0.5, 2.0, 7.5, 400.0]), rng.choice([0.5, 3.0, 8.0, 30.0, 1e6])
        pins = rng.choice(np.array([None, None, None, True, False]), shots).tolist()
        cases.append((scores, ends, threshold, float(shortest), float(longest), pins))
    actual = view.evaluate(
        "cases => cases.map(one => chooseSceneEnds(...one))",
        [[scores.tolist(), ends.tolist(), *options] for scores, ends, *options in cases],
    )
    assert actual == [choose_scene_ends(*case[:-1], pins=case[-1]) for case in cases]


def test_times_are_formatted_as_in_python(view: Page) -> None:
    rng = np.random.default_rng(4)
    times = [0.0, 0.0005, 0.0015, 0.0625, 59.9995, 3599.9996, 359999.9, *(rng.integers(0, 10**8, 300) / 16000).tolist()]
    assert view.evaluate("times => times.map(timecode)", times) == [timecode(time) for time in times]


def test_no_scene_is_shorter_or_longer_than_the_limits_whatever_the_threshold(
    window: BrowserContext, tmp_path: Path
) -> None:
    plain = pages.invented(40)

    def content(*limits: float) -> dict[str, Any]:
        return pages.grouped(plain.shots, plain.video, *limits).to_dict()

    with opened_page(window, tmp_path, pages.grouped(plain.shots, plain.video, 0.5, 5.0, 20.0)) as seen:
        page = seen.page
        assert page.input_value("#max-scene") == "20"
        slide(page, 0.8)
        assert json.loads(saved(page, tmp_path).read_text()) == content(0.8, 5.0, 20.0)
        assert len(content(0.8, 5.0, 20.0)["scenes"]) > len(content(0.8, 5.0)["scenes"])
        page.fill("#max-scene", "4")
        assert page.inner_text("#status") == "The shortest scene cannot be longer than the longest."
        page.fill("#max-scene", "40")
        page.fill("#min-scene", "12")
        page.fill("#threshold-number", "0.15")
        assert json.loads(saved(page, tmp_path).read_text()) == content(0.15, 12.0, 40.0)
        page.fill("#max-scene", "")
        assert json.loads(saved(page, tmp_path).read_text()) == content(0.15, 12.0)


def test_answers_hold_for_every_threshold_and_are_saved_and_a_person_replaces_those_of_a_program(
    window: BrowserContext, tmp_path: Path
) -> None:
    plain = pages.invented(40)
    answers = {4: (True, "program"), 5: (True, None), 20: (False, "program"), 30: (False, None)}
    shots = list(plain.shots)
    for shot, (pinned, by) in answers.items():
        shots[shot] = replace(shots[shot], pinned=pinned, pinned_by=by)
    path = tmp_path / "pinned.json"
    replace(plain, shots=tuple(shots), scenes=group_shots(shots, [4, 5, 39])).save(path)

    def answers_saved(page: Page) -> dict[int, tuple[bool | None, str | None]]:
        result = read_scene_list(saved(page, tmp_path))
        return {shot.index: (shot.pinned, shot.pinned_by) for shot in result.shots if shot.pinned is not None}

    with opened_page(window, tmp_path, read_scene_list(path)) as seen:
        page = seen.page
        assert page.locator("#track .by-program").count() == 2
        for threshold in (0.02, 0.99):
            slide(page, threshold)
            expected = load_scenes(path).regroup(threshold=threshold)
            assert ends_shown(page) == [scene.end_shot - 1 for scene in expected.scenes]
            assert read_scene_list(saved(page, tmp_path)).scenes == expected.scenes
            assert answers_saved(page) == answers
        tile(page, 5).click()
        press(page, "Shift+M")  # merges the first two scenes
        assert ends_shown(page) == [5, 39]
        for reader in (page, reopened(page)):
            assert answers_saved(reader) == {**answers, 4: (False, None)}


def test_a_fixed_number_of_scenes_is_kept_until_the_slider_moves(window: BrowserContext, tmp_path: Path) -> None:
    plain = pages.invented(12)
    numbered = replace(plain, settings={**plain.settings, "scenes": 2}, scenes=group_shots(plain.shots, [4, 11]))
    with opened_page(window, tmp_path, numbered) as seen:
        assert ends_shown(seen.page) == [4, 11]
        assert "number of scenes was set to 2" in seen.page.inner_text("#origin")
        assert json.loads(saved(seen.page, tmp_path).read_text()) == numbered.to_dict()
        slide(seen.page, 0.5)
        assert json.loads(saved(seen.page, tmp_path).read_text()) == plain.to_dict()


# --- the video -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "times"), [(24000 / 1001, None), (24, VARIABLE)], ids=["23.976", "variable"])
def test_a_click_shows_the_first_frame_of_the_shot(
    window: BrowserContext, tmp_path: Path, rate: float, times: list[float] | None
) -> None:
    with opened_video(window, tmp_path, rate, times) as (scenes, page):
        for shot in (4, 7, 1):
            tile(page, shot).click()
            assert scenes.shots[shot].start <= video_time(page) < scenes.shots[shot].end
            assert shows_frame(page, scenes.shots[shot].start_frame)
        page.click(".number >> nth=2")
        page.wait_for_function("start => video.currentTime >= start", arg=scenes.scenes[2].start)


def test_the_player_is_enlarged_with_controls_and_small_again(view: Page) -> None:
    for keys, share, has_controls in (((), 0.3, False), (("f",), 0.48, True), (("f",), 0.3, False)):
        press(view, *keys)
        assert box_of(view.locator("#video"))["width"] / 1280 == pytest.approx(share, abs=0.05)
        assert view.evaluate("video.controls") == has_controls
    resized(view, 390)
    view.click("#larger")
    assert box_of(view.locator("#video"))["width"] > 0.9 * 390


def test_the_frames_at_a_cut_are_shown_and_two_seconds_across_it_are_played(view: Page, made: Made) -> None:
    ready(view)
    for shot in (3, 5):
        press(view, "Home", *["ArrowRight"] * shot)
        start = made.scenes.shots[shot].start_frame
        for i, frame in enumerate((start - 1, start)):
            assert shows_frame(view, frame, f"#at-cut canvas >> nth={i}")
    cut = made.scenes.shots[5].start
    for _ in range(2):  # also from later in the video
        press(view, "x")
        view.wait_for_function("cut => !video.paused && video.currentTime < cut", arg=cut)
        view.wait_for_function("cut => video.paused && video.currentTime >= cut + 0.9", arg=cut)
        assert view.evaluate("video.currentTime") < cut + 1.3
        assert tile(view, 5).get_attribute("aria-current") == "true", "the selection stays for the next time"
    assert resized(view, 390).is_hidden("#at-cut"), "it has no room"
    assert shows_frame(resized(view, 1280), start, "#at-cut canvas >> nth=1")


def test_the_timeline_seeks_zooms_and_scrolls_the_list(view: Page, made: Made) -> None:
    box = box_of(view.locator("#track"))
    shot = made.scenes.shots[5]
    x = box["x"] + box["width"] * (shot.start + shot.end) / 2 / made.scenes.video.duration
    view.mouse.click(x, box["y"] + 40)
    expect(tile(view, 5)).to_have_attribute("aria-current", "true")
    assert "shot 6" in view.inner_text("#readout")
    assert shot.start <= view.evaluate("video.currentTime") < shot.end
    view.mouse.click(x, box["y"] + 18 + 62 + 12)  # the band of scenes
    expect(tile(view, 5), "the first shot of its scene").to_have_attribute("aria-current", "true")
    zoom_out = view.locator("#zoom-out")
    expect(zoom_out).to_be_disabled()
    view.mouse.move(x, box["y"] + 40)
    view.mouse.wheel(0, -400)
    expect(zoom_out).to_be_enabled()
    assert view.locator(".track .window").count() == 1
    view.click("#zoom-fit")
    expect(zoom_out).to_be_disabled()
    view.focus("#track")  # a slider for screen readers
    press(view, "+", "Home", "ArrowRight", "ArrowRight", "ArrowRight")
    expect(zoom_out).to_be_enabled()
    assert view.get_attribute("#track", "aria-valuenow") == "4"
    assert "Shot 4" in (view.get_attribute("#track", "aria-valuetext") or "")


# --- corrections by hand --------------------------------------------------------------------------------------------


def test_corrections_are_saved_in_a_valid_scenes_json_whose_page_shows_them(
    window: BrowserContext, view: Page, made: Made, tmp_path: Path
) -> None:
    view.click(".merge >> nth=2")
    tile(view, 6).hover()
    view.locator(".split").nth(6).click()
    view.click(".rename >> nth=0")
    view.fill(".name input", "  A <b>bird</b>,\n \"two\" & 'three' \u00fc\U0001f426 ")
    view.keyboard.press("Enter")
    assert ends_shown(view) == [1, 4, 5, 6, 7]
    name = "A <b>bird</b>,  \"two\" & 'three' \u00fc\U0001f426"
    pins = {3: False, 5: True}
    shots = tuple(replace(shot, pinned=pins.get(shot.index)) for shot in made.scenes.shots)
    scenes = group_shots(shots, [1, 4, 5, 6, 7])
    scenes = (replace(scenes[0], name=name), *scenes[1:])
    expected = replace(made.scenes, shots=shots, scenes=scenes, settings=made.scenes.settings | {"max_scene": 0})
    content = json.loads(saved(view, tmp_path).read_text())
    jsonschema.validate(content, SCHEMA)
    assert content == expected.to_dict(made.path.parent)
    with opened_page(window, tmp_path, read_scene_list(tmp_path / "scenes.json")) as seen:
        assert ends_shown(seen.page) == [1, 4, 5, 6, 7]
        assert seen.page.inner_text(".scene .name >> nth=0") == " ".join(name.split())
        assert "your corrections stay" in seen.page.inner_text("#origin")


def test_a_name_stays_with_most_of_its_scene_and_can_be_removed(view: Page) -> None:
    for scene, name in ((1, "Kept"), (3, "Short")):
        view.click(f".rename >> nth={scene}")
        view.keyboard.type(name)
        view.keyboard.press("Enter")
    view.click(".rename >> nth=2")
    view.keyboard.type("Not kept")
    view.keyboard.press("Escape")
    slide(view, 0.8)  # the second scene begins with the same shot still
    slide(view, 0.5)
    # Not the inner text, of which there is none where nothing is drawn yet.
    assert view.locator(".scene .name").all_text_contents() == ["", "Kept", "", "Short", ""]
    for _ in range(4):
        view.click(".merge >> nth=1")
    assert view.locator(".scene .name").all_text_contents() == ["Kept"]
    view.click(".rename >> nth=0")
    view.fill(".name input", "")
    view.keyboard.press("Enter")
    assert view.locator(".scene .name").all_text_contents() == [""]


# --- people, privacy ------------------------------------------------------------------------------------------------


def test_axe_finds_no_accessibility_problems(view: Page) -> None:
    view.wait_for_function("() => document.querySelectorAll('.shot img[src]').length === 8")
    view.click(".rename >> nth=0")
    view.keyboard.type("A name")
    view.keyboard.press("Enter")
    view.check("#filter-unreviewed")
    assert faults(view) == []
    view.click("#keys")
    assert faults(view) == []
    for scheme, is_light in (("light", True), ("dark", False)):
        view.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        ground = view.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) > 3 * 128) == is_light


def test_the_page_cannot_send_data(window: BrowserContext, made: Made) -> None:
    with opened(window, made.path.as_uri()) as seen:
        refused = seen.page.evaluate(
            """async () => {
                const refused = [];
                addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
                await fetch("https://example.org/").catch(() => 0);
                new Image().src = "https://example.org/one.png";
                const script = document.createElement("script");
                script.textContent = "window.harmed = 1";
                document.body.append(script);
                await new Promise((done) => setTimeout(done, 200));
                return refused.sort();
            }"""
        )
        assert refused == ["connect-src", "img-src", "script-src-elem"]
        assert seen.page.evaluate("window.harmed") is None
        assert {why for url, why in seen.failed if url.startswith("http")} == {"csp"}
        assert [url for url in seen.requests if url.startswith("http")] == [url for url, _ in seen.failed]
        seen.complaints.clear()  # of the browser, on what it refused
