"""The page in a real browser: its content, controls and saved files, and that it sends nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from pipelines.datasets.scenes_json import read_scene_list, read_scenes_json
from pipelines.models.scenes import choose_scene_ends
from pipelines.outputs.exports import export
from pipelines.outputs.page import save_page
from pipelines.scenes import group_shots, timecode
from pipelines.stages.scene_list import load_scenes
from pipelines.stages.score import score
from tests import pages, videos
from tests.browser.opening import (
    VARIABLE,
    Made,
    ends_shown,
    faults,
    frame_shown,
    opened,
    opened_page,
    opened_video,
    press,
    ready,
    saved,
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
    assert view.evaluate("document.getElementById('video').poster.startsWith('data:image/webp;base64,')")
    assert view.inner_text("h1") == "video #1 (50%).mp4"
    assert view.inner_text("#count") == "5 scenes · 8 shots · 0:05"
    assert "320 × 180" in (view.text_content("#facts") or "")
    first_sight = view.inner_text("body")
    for word in ("320 × 180", "score ", "confidence", "transitions"):
        assert word not in first_sight, "for a second look"
    assert view.locator(".track .scene-band").count() == 5


def test_transitions_are_marked_between_shots(browser: Browser, tmp_path: Path) -> None:
    save_page(tmp_path / "page.html", pages.invented(6))
    text = (tmp_path / "page.html").read_text()
    data = re.search(r'id="data">(.*?)</script>', text)
    assert data is not None
    content = json.loads(data[1])
    for shot, kind in ((1, "dissolve"), (2, "cut"), (3, "fade")):
        content["file"]["shots"][shot]["transition"] = {
            "kind": kind, "start_frame": 100, "end_frame": 112, "start": 4.0, "end": 4.5,
        }  # fmt: skip
    (tmp_path / "page.html").write_text(text.replace(data[1], json.dumps(content)))
    with opened(browser, tmp_path / "page.html") as seen:
        marks = seen.page.locator(".transition")
        assert marks.evaluate_all("all => all.map(one => [one.closest('.shot').shot, one.title])") == [
            [1, "dissolve, frames 100–111"],
            [3, "fade, frames 100–111"],
        ]
        assert json.loads(saved(seen.page, tmp_path).read_text())["shots"] == content["file"]["shots"]


def test_names_are_shown_as_text_only(browser: Browser, tmp_path: Path) -> None:
    plain = pages.invented(5)
    first, *others = plain.scenes
    scenes = replace(
        plain,
        video=replace(plain.video, path=HOSTILE.replace("/", "\\")),
        settings={**plain.settings, HOSTILE: HOSTILE},
        scenes=(replace(first, name=HOSTILE), *others),
    )
    with opened_page(browser, tmp_path, scenes, pages.noise(5), save_as=HOSTILE.replace("/", "")) as seen:
        page = seen.page
        assert page.inner_text(".scene .name >> nth=0") == HOSTILE
        assert HOSTILE in (page.text_content("aside") or "")
        page.click(".rename >> nth=0")
        assert page.input_value(".name input") == HOSTILE
        page.keyboard.press("Enter")
        page.wait_for_timeout(100)
        assert page.evaluate("window.harmed") is None
        assert page.locator("img[onerror]").count() == 0
        assert seen.complaints == []


def test_the_page_opens_with_three_thousand_shots(browser: Browser, tmp_path: Path) -> None:
    scenes = pages.invented(3000)
    with opened_page(browser, tmp_path, scenes, pages.noise(60, 32, 18) * 50) as seen:
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
        assert seen.complaints == []


def test_a_page_without_images_and_video_says_so(browser: Browser, tmp_path: Path) -> None:
    with opened_page(browser, tmp_path, pages.invented(6)) as seen:
        assert "was not found when this page was made" in seen.page.inner_text("#video-note")
        assert not seen.page.is_visible("#video")
        assert not seen.page.is_visible(".shot img >> nth=0")
        assert seen.page.locator(".shot").count() == 6
        assert seen.complaints == []


def test_a_video_that_the_browser_cannot_play_is_reported(browser: Browser, tmp_path: Path) -> None:
    scenes, images = pages.rendered(tmp_path / "video.mp4")
    (tmp_path / "video.mp4").write_bytes(b"no video" * 100)
    with opened_page(browser, tmp_path, scenes, images, tmp_path / "video.mp4") as seen:
        page = seen.page
        page.wait_for_selector("#video-note")
        assert "This browser cannot show video.mp4, or it is not there" in page.inner_text("#video-note")
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


def test_moving_the_slider_regroups_scenes(view: Page, made: Made) -> None:
    for threshold in (0.05, 0.35, 0.5, 0.65, 0.99):
        slide(view, threshold)
        scenes = pages.grouped(made.scenes.shots, made.scenes.video, threshold)
        assert ends_shown(view) == [scene.end_shot - 1 for scene in scenes.scenes]
        number = f"{len(scenes.scenes)} scene{'s' * (len(scenes.scenes) > 1)}"
        assert view.inner_text("#number") == number
        assert view.inner_text("#count").startswith(number)
        view.wait_for_function(
            "count => document.querySelectorAll('.track .scene-band').length === count", arg=len(scenes.scenes)
        )


def test_the_minimum_scene_length_is_respected(view: Page, made: Made, tmp_path: Path) -> None:
    view.fill("#min-scene", "1.2")
    view.fill("#threshold-number", "0.15")
    expected = pages.grouped(made.scenes.shots, made.scenes.video, 0.15, 1.2)
    assert ends_shown(view) == [scene.end_shot - 1 for scene in expected.scenes]
    assert min(scene.end - scene.start for scene in expected.scenes) >= 1.2
    assert json.loads(saved(view, tmp_path).read_text()) == expected.to_dict(made.path.parent)


def test_no_scene_is_longer_than_the_longest_whatever_the_threshold(browser: Browser, tmp_path: Path) -> None:
    plain = pages.invented(40)
    limited = pages.grouped(plain.shots, plain.video, 0.5, 5.0, 20.0)
    with opened_page(browser, tmp_path, limited) as seen:
        page = seen.page
        assert page.input_value("#max-scene") == "20"
        slide(page, 0.8)
        expected = pages.grouped(plain.shots, plain.video, 0.8, 5.0, 20.0)
        assert ends_shown(page) == [scene.end_shot - 1 for scene in expected.scenes]
        assert len(expected.scenes) > len(pages.grouped(plain.shots, plain.video, 0.8, 5.0).scenes)
        page.fill("#max-scene", "4")
        assert page.inner_text("#status") == "The shortest scene cannot be longer than the longest."
        page.fill("#max-scene", "40")
        assert (
            json.loads(saved(page, tmp_path).read_text())
            == pages.grouped(plain.shots, plain.video, 0.8, 5.0, 40.0).to_dict()
        )
        page.fill("#max-scene", "")
        assert (
            json.loads(saved(page, tmp_path).read_text()) == pages.grouped(plain.shots, plain.video, 0.8, 5.0).to_dict()
        )
        assert seen.complaints == []


def test_pins_hold_for_every_threshold_and_are_saved_and_a_correction_replaces_them(
    browser: Browser, tmp_path: Path
) -> None:
    plain = pages.invented(40)
    pins = {4: True, 5: True, 20: False, 30: False}
    shots = [replace(shot, pinned=pins.get(shot.index)) for shot in plain.shots]
    path = tmp_path / "pinned.json"
    replace(plain, shots=tuple(shots), scenes=group_shots(shots, [4, 5, 39])).save(path)

    def pins_saved(page: Page) -> dict[int, bool | None]:
        found = read_scene_list(saved(page, tmp_path))
        return {shot.index: shot.pinned for shot in found.shots if shot.pinned is not None}

    with opened_page(browser, tmp_path, read_scene_list(path)) as seen:
        page = seen.page
        for threshold in (0.02, 0.99):
            slide(page, threshold)
            expected = load_scenes(path).regroup(threshold=threshold)
            assert ends_shown(page) == [scene.end_shot - 1 for scene in expected.scenes]
            assert read_scene_list(saved(page, tmp_path)).scenes == expected.scenes
            assert pins_saved(page) == pins
        tile(page, 5).click()
        press(page, "Shift+M")  # merges the first two scenes
        assert ends_shown(page) == [5, 39]
        assert pins_saved(page) == {4: False, 5: True, 20: False, 30: False}
        page.reload()
        assert pins_saved(page) == {4: False, 5: True, 20: False, 30: False}
        slide(page, 0.5)
        assert 5 in ends_shown(page)
        assert not {20, 30} & set(ends_shown(page))
        press(page, "Control+z", "Control+z")
        assert pins_saved(page) == pins
        assert seen.complaints == []


def test_answers_of_a_program_are_shown_apart_and_a_persons_answer_replaces_them(
    browser: Browser, tmp_path: Path
) -> None:
    plain = pages.invented(40)
    answers = {4: (True, "program"), 5: (True, None), 20: (False, "program")}
    shots = list(plain.shots)
    for shot, (pinned, by) in answers.items():
        shots[shot] = replace(shots[shot], pinned=pinned, pinned_by=by)
    path = tmp_path / "pinned.json"
    replace(plain, shots=tuple(shots), scenes=group_shots(shots, [4, 5, 39])).save(path)

    def answers_saved(page: Page) -> dict[int, tuple[bool | None, str | None]]:
        result = read_scene_list(saved(page, tmp_path))
        return {shot.index: (shot.pinned, shot.pinned_by) for shot in result.shots if shot.pinned is not None}

    with opened_page(browser, tmp_path, read_scene_list(path)) as seen:
        page = seen.page
        assert page.locator("#track .by-program").count() == 2
        slide(page, 0.99)
        assert answers_saved(page) == answers
        tile(page, 5).click()
        press(page, "Shift+M")
        assert answers_saved(page) == {**answers, 4: (False, None)}
        page.reload()
        assert answers_saved(page) == {**answers, 4: (False, None)}
        assert seen.complaints == []


def test_a_fixed_number_of_scenes_is_kept_until_the_slider_moves(browser: Browser, tmp_path: Path) -> None:
    plain = pages.invented(12)
    numbered = replace(plain, settings={**plain.settings, "scenes": 2}, scenes=group_shots(plain.shots, [4, 11]))
    with opened_page(browser, tmp_path, numbered) as seen:
        assert ends_shown(seen.page) == [4, 11]
        assert "number of scenes was set to 2" in seen.page.inner_text("#origin")
        assert json.loads(saved(seen.page, tmp_path).read_text()) == numbered.to_dict()
        slide(seen.page, 0.5)
        assert json.loads(saved(seen.page, tmp_path).read_text()) == plain.to_dict()


# --- the video -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "times"), [(24, None), (24000 / 1001, None), (24, VARIABLE)], ids=["24", "23.976", "variable"]
)
def test_a_click_shows_the_first_frame_of_the_shot(
    browser: Browser, tmp_path: Path, rate: float, times: list[float] | None
) -> None:
    with opened_video(browser, tmp_path, rate, times) as (scenes, seen):
        page = seen.page
        for shot in (4, 7, 1):
            tile(page, shot).click()
            assert scenes.shots[shot].start <= video_time(page) < scenes.shots[shot].end
            assert frame_shown(page) == scenes.shots[shot].start_frame
        page.click(".number >> nth=2")
        page.wait_for_function(
            "start => document.getElementById('video').currentTime >= start", arg=scenes.scenes[2].start
        )
        assert seen.complaints == []


def test_the_player_is_enlarged_with_controls_and_small_again(view: Page) -> None:
    for keys, share, has_controls in (((), 0.3, False), (("f",), 0.48, True), (("f",), 0.3, False)):
        press(view, *keys)
        box = view.locator("#video").bounding_box()
        assert box is not None
        assert (abs(box["width"] / 1280 - share) < 0.05, view.evaluate("video.controls")) == (True, has_controls)
    view.set_viewport_size({"width": 390, "height": 844})
    view.click("#larger")
    box = view.locator("#video").bounding_box()
    assert box is not None
    assert box["width"] > 0.9 * 390


def test_the_frames_at_a_cut_are_shown_and_two_seconds_across_it_are_played(view: Page, made: Made) -> None:
    ready(view)
    for shot in (3, 5):
        press(view, "Home", *["ArrowRight"] * shot)
        start = made.scenes.shots[shot].start_frame
        for canvas, frame in zip(view.locator("#at-cut canvas").all(), (start - 1, start), strict=True):
            for _ in range(50):
                image = Image.open(BytesIO(canvas.screenshot())).convert("RGB")
                if (number := videos.number_of(np.asarray(image))) == frame:
                    break
                view.wait_for_timeout(50)
            assert number == frame
    cut = made.scenes.shots[5].start
    for _ in range(2):  # also from later in the video
        press(view, "x")
        view.wait_for_function("cut => !video.paused && video.currentTime < cut", arg=cut)
        view.wait_for_function("cut => video.paused && video.currentTime >= cut + 0.9", arg=cut)
        assert view.evaluate("video.currentTime") < cut + 1.3
        assert tile(view, 5).get_attribute("aria-current") == "true", "the selection stays for the next time"


def test_the_timeline_seeks_zooms_and_scrolls_the_list(view: Page, made: Made) -> None:
    box = view.locator("#track").bounding_box()
    assert box is not None
    shot = made.scenes.shots[5]
    x = box["x"] + box["width"] * (shot.start + shot.end) / 2 / made.scenes.video.duration
    view.mouse.click(x, box["y"] + 40)
    assert tile(view, 5).get_attribute("aria-current") == "true"
    assert "shot 6" in view.inner_text("#readout")
    assert shot.start <= view.evaluate("document.getElementById('video').currentTime") < shot.end
    view.mouse.click(x, box["y"] + 18 + 62 + 12)  # the band of scenes
    scene = next(scene for scene in made.scenes.scenes if scene.start_shot <= 5 < scene.end_shot)
    assert tile(view, scene.start_shot).get_attribute("aria-current") == "true"
    assert view.is_disabled("#zoom-out")
    view.mouse.move(x, box["y"] + 40)
    view.mouse.wheel(0, -400)
    view.wait_for_function("() => !document.getElementById('zoom-out').disabled")
    assert view.locator(".track .window").count() == 1
    view.click("#zoom-fit")
    view.wait_for_function("() => document.getElementById('zoom-out').disabled")
    view.click("#zoom-in")
    view.wait_for_function("() => !document.getElementById('zoom-out').disabled")


# --- corrections by hand --------------------------------------------------------------------------------------------


def test_corrections_are_saved_in_a_valid_scenes_json(view: Page, made: Made, tmp_path: Path) -> None:
    assert ends_shown(view) == [1, 3, 4, 6, 7]
    view.click(".merge >> nth=2")
    view.locator(".shot").nth(6).hover()
    view.locator(".split").nth(6).click()
    view.click(".rename >> nth=0")
    view.fill(".name input", "  A <b>bird</b>,\n \"two\" & 'three' \u00fc\U0001f426 ")
    view.keyboard.press("Enter")
    assert ends_shown(view) == [1, 4, 5, 6, 7]
    file = saved(view, tmp_path)

    name = "A <b>bird</b>,  \"two\" & 'three' \u00fc\U0001f426"
    pins = {3: False, 5: True}
    shots = tuple(replace(shot, pinned=pins.get(shot.index)) for shot in made.scenes.shots)
    scenes = group_shots(shots, [1, 4, 5, 6, 7])
    expected = replace(
        made.scenes,
        shots=shots,
        scenes=(replace(scenes[0], name=name), *scenes[1:]),
        settings=made.scenes.settings | {"max_scene": 0},
    )
    content = json.loads(file.read_text())
    jsonschema.validate(content, SCHEMA)
    assert content == expected.to_dict(made.path.parent)
    assert read_scene_list(file) == expected
    labels = read_scenes_json(file).scene_end
    assert labels is not None
    assert np.flatnonzero(labels).tolist() == [1, 4, 5, 6]
    made.scenes.save(tmp_path / "found.json")
    measured = score(tmp_path / "found.json", file, resamples=0)
    assert measured.measures["precision"].pooled == pytest.approx(3 / 4)  # 1, 4 and 6 of 1, 3, 4 and 6
    export(read_scene_list(file), tmp_path / "scenes.vtt", "webvtt")
    assert "<b>" not in (tmp_path / "scenes.vtt").read_text()
    # And the page of what was saved begins where this one ended.
    save_page(tmp_path / "again.html", read_scene_list(file))
    assert view.context.browser is not None
    with opened(view.context.browser, tmp_path / "again.html") as again:
        assert ends_shown(again.page) == [1, 4, 5, 6, 7]
        assert again.page.inner_text(".scene .name >> nth=0") == " ".join(name.split())
        assert "your corrections stay" in again.page.inner_text("#origin")


def test_undo_and_redo_cover_all_changes(view: Page, made: Made, tmp_path: Path) -> None:
    assert view.is_disabled("#undo")
    view.click(".merge >> nth=1")
    view.click(".merge >> nth=1")
    slide(view, 0.3)
    assert ends_shown(view) == [2, 4, 6, 7], "what was merged stays merged"
    view.click(".rename >> nth=1")
    view.keyboard.type("Second")
    view.keyboard.press("Enter")
    after = ends_shown(view)
    for _ in range(2):
        view.click("#undo")
    assert ends_shown(view) == [4, 6, 7]
    for _ in range(2):
        view.keyboard.press("Control+z")
    assert view.is_disabled("#undo")
    assert json.loads(saved(view, tmp_path).read_text()) == made.scenes.to_dict(made.path.parent)
    for _ in range(4):
        view.keyboard.press("Control+Shift+z")
    assert view.is_disabled("#redo")
    # Not its inner text, which is empty while the browser has not laid out the card again.
    assert (ends_shown(view), view.text_content(".name >> nth=1")) == (after, "Second")


def test_a_name_stays_with_its_scene_and_can_be_removed(view: Page) -> None:
    view.click(".rename >> nth=1")
    view.keyboard.type("Kept")
    view.keyboard.press("Enter")
    view.click(".rename >> nth=2")
    view.keyboard.type("Not kept")
    view.keyboard.press("Escape")
    slide(view, 0.8)  # the second scene begins with the same shot still
    slide(view, 0.5)
    # Not the inner text, of which there is none where nothing is drawn yet.
    assert view.locator(".scene .name").all_text_contents() == ["", "Kept", "", "", ""]
    view.click(".merge >> nth=1")
    assert view.text_content(".scene .name >> nth=0") == "Kept"
    view.click(".rename >> nth=0")
    view.fill(".name input", "")
    view.keyboard.press("Enter")
    assert view.locator(".scene .name").all_text_contents() == [""] * 4


# --- keys, people, privacy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_accessibility_problems(browser: Browser, made: Made, scheme: str) -> None:
    # Without motion, as a button that fades in has too little contrast for a moment.
    with opened(browser, made.path, color_scheme=scheme, reduced_motion="reduce") as seen:
        seen.page.wait_for_function("() => document.querySelectorAll('.shot img[src]').length === 8")
        seen.page.click(".rename >> nth=0")
        seen.page.keyboard.type("A name")
        seen.page.keyboard.press("Enter")
        assert faults(seen.page) == []
        seen.page.check("#filter-unreviewed")
        assert faults(seen.page) == []
        seen.page.click("#keys")
        assert faults(seen.page) == []
        seen.page.keyboard.press("Escape")
        ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) > 3 * 128) == (scheme == "light")
        seen.page.set_viewport_size({"width": 360, "height": 740})
        assert seen.page.evaluate("document.documentElement.scrollWidth") == 360, "nothing sticks out of a phone"


def test_the_page_cannot_send_data(browser: Browser, made: Made) -> None:
    with opened(browser, made.path) as seen:
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
