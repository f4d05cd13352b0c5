"""Review mode by keyboard: looks, answers that are pinned, and what they change; and marks of reviewed scenes."""

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
from playwright.sync_api import Browser, BrowserContext, Page, expect

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.models.calibration import review as python_review
from pipelines.outputs.images import ShotImages
from pipelines.scenes import group_shots
from pipelines.stages.scene_list import SceneList
from pipelines.video.shots import KeyframedShot
from tests import pages
from tests.browser.opening import (
    Made,
    box_of,
    ends_shown,
    faults,
    opened,
    opened_page,
    press,
    ready,
    resized,
    saved,
    slide,
    tile,
)
from tests.scenes_schema import SCHEMA

# The video of `made` has eight shots, so that one look shows all.


def boundaries(page: Page) -> list[bool]:
    """Which boundaries of the look are marked as scene ends."""
    pressed = "all => all.map(one => one.getAttribute('aria-pressed') === 'true')"
    return list(page.eval_on_selector_all("#review-shots .boundary:enabled", pressed))


def shots_in_view(page: Page) -> list[int]:
    numbers = page.locator("#review-shots .caption b").all_text_contents()
    return [int(number) - 1 for number in numbers]


def pins(page: Page, folder: Path) -> dict[int, bool]:
    """The pins of the saved file, by shot."""
    content = json.loads(saved(page, folder).read_text())
    jsonschema.validate(content, SCHEMA)
    return {shot["index"]: shot["pinned"] for shot in content["shots"] if "pinned" in shot}


def expected_f1(page: Page) -> float:
    text = re.match(r"Expected F1 (\d+) %:", page.locator("#review-how").text_content() or "")
    assert text is not None
    f1 = int(text[1])
    sentence = page.inner_text("#review-f1")
    assert f1 == 95 or sentence.startswith("Nearly all") == (f1 > 95), f"{f1} % is «{sentence}»"
    return f1


def test_a_look_is_answered_with_the_keys_and_saved_as_pins(view: Page, tmp_path: Path) -> None:
    press(view, "r")
    assert view.inner_text("#review-title") == "Question 1"
    assert shots_in_view(view) == [*range(8)]
    assert boundaries(view) == [shot in (1, 3, 4, 6) for shot in range(7)], "as the model says"
    assert view.locator(".boundary.guess b").all_text_contents() == ["2", "4", "5", "7"]
    press(view, "2", "3", "5", "5")
    assert boundaries(view) == [shot in (2, 3, 4, 6) for shot in range(7)]
    assert ends_shown(view) == [1, 3, 4, 6, 7], "nothing changes before Enter"
    press(view, "Enter")
    assert "nothing is left to review" in view.inner_text("#review-title")
    assert "1 question answered · 7 of 7 boundaries" in view.inner_text("#review-made")
    assert expected_f1(view) == 100
    expect(view.locator("#track .confirmed")).to_have_count(4)
    expect(view.locator("#track .refused")).to_have_count(3)
    press(view, "Escape")
    assert view.is_visible(".scene >> nth=0")
    assert ends_shown(view) == [2, 3, 4, 6, 7]
    assert pins(view, tmp_path) == {0: False, 1: False, 2: True, 3: True, 4: True, 5: False, 6: True}
    assert [scene.end_shot for scene in read_scene_list(tmp_path / "scenes.json").scenes] == [3, 4, 5, 7, 8]


def test_a_whole_review_by_keyboard_finds_the_scenes_of_a_person_as_from_python(
    window: BrowserContext, tmp_path: Path
) -> None:
    scenes = SceneList(**vars(pages.invented(60)))
    truth = {4, 11, 12, 30, 44, 51}
    with opened_page(window, tmp_path, scenes, pages.noise(6) * 10) as seen:
        page = seen.page
        press(page, "r")
        looks = 0
        while "nothing is left" not in page.inner_text("#review-title"):
            looks += 1
            assert page.inner_text("#review-title") == f"Question {looks}"
            first = shots_in_view(page)[0]
            for i, is_marked in enumerate(boundaries(page)):
                if is_marked != (first + i in truth):
                    press(page, str(i + 1))
            press(page, "Enter")
        assert looks <= 20
        assert expected_f1(page) == 100
        press(page, "r")
        assert ends_shown(page) == [*sorted(truth), 59]
        assert page.inner_text("#reviewed-count") == "7 of 7 reviewed"
        result, in_python = read_scene_list(saved(page, tmp_path)), scenes.pin(truth, {*range(59)} - truth)
        assert (result.shots, result.scenes) == (in_python.shots, in_python.scenes)
        assert result.settings["threshold"] == pytest.approx(in_python.settings["threshold"])


FOCUS_IS_VISIBLE = """
() => {
    const focused = document.activeElement;
    const style = getComputedStyle(focused);
    const { left, top, right, bottom } = focused.getBoundingClientRect();
    const inView = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
    const onTop = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    return inView && focused !== document.body && focused.contains(onTop)
        && (style.outlineStyle !== "none" || style.textDecorationLine === "underline");
}
"""


def test_where_the_keyboard_is_can_be_seen_all_the_way(window: BrowserContext, tmp_path: Path) -> None:
    with opened_page(window, tmp_path, pages.invented(60), pages.noise(6) * 10, save_as="movie.scenes.json") as seen:
        page = seen.page
        press(page, "Tab")  # after Tab, Enter and Space are for the button with the focus, except on a boundary
        for keys in ("r", "2", "Enter", "3", "Enter", "Escape"):
            press(page, keys)
            assert page.evaluate(FOCUS_IS_VISIBLE), keys
        with page.expect_download() as download:
            press(page, "Control+s")
        assert download.value.suggested_filename == "movie.scenes.json"


def test_undo_takes_answers_back_and_shows_the_look_again(window: BrowserContext, tmp_path: Path) -> None:
    with opened_page(window, tmp_path, pages.invented(60), pages.noise(6) * 10) as seen:
        page = seen.page

        def state() -> tuple[list[int], list[bool], str, float]:
            return shots_in_view(page), boundaries(page), page.inner_text("#review-made"), expected_f1(page)

        press(page, "r")
        states = []
        for _ in range(3):
            states.append(state())
            press(page, "1", "Enter")
        for i in (2, 1, 0):
            assert page.get_attribute("#undo", "title") == f"Undo: question {i + 1}"
            press(page, "Control+z")
            assert state() == states[i]
        press(page, "Control+Shift+z")
        assert shots_in_view(page) == states[1][0]


def test_the_order_of_looks_is_the_same_as_in_python(view: Page) -> None:
    rng = np.random.default_rng(7)
    whole_review = """([scores, truth, shots]) => {
      const [answers, states] = [new Map(), []];
      for (;;) {
        const { window, expectedF1, threshold } = review(scores, answers, shots);
        states.push([window, expectedF1, threshold]);
        if (!window) return states;
        for (let cut = window[0]; cut < window[1] - 1; cut += 1) answers.set(cut, truth[cut]);
      }
    }"""
    for shots, shots_per_look in ((5, 8), (60, 4), (700, 8)):
        scores = np.round(rng.beta(0.5, 2, shots), 3)
        truth = (rng.random(shots) < scores / 2).tolist()
        answers: dict[int, bool] = {}
        for window, f1, threshold in view.evaluate(whole_review, [scores.tolist(), truth, shots_per_look]):
            state = python_review(scores, answers, shots_per_look)
            assert (state.window, [state.expected_f1, state.threshold]) == (
                window and tuple(window), pytest.approx([f1, threshold])
            )  # fmt: skip
            start, stop = state.window or (0, 1)
            answers |= {cut: truth[cut] for cut in range(start, stop - 1)}
        assert len(answers) == shots - 1


def test_what_was_decided_is_shown_and_can_be_decided_again(window: BrowserContext, tmp_path: Path) -> None:
    with opened_page(window, tmp_path, pages.invented(9), pages.noise(9)) as seen:
        page = seen.page
        press(page, "r", "Enter")
        assert page.locator(".boundary:enabled >> text=answered").count() == 6
        marked = boundaries(page)
        press(page, "3", "Enter", "Escape")
        assert pins(page, tmp_path)[3] != marked[2]


def test_the_video_plays_from_a_shot_of_the_look(view: Page, made: Made) -> None:
    ready(view)
    press(view, "r", "ArrowRight", "ArrowRight", "Space")
    view.wait_for_function("start => video.currentTime > start && !video.paused", arg=made.scenes.shots[2].start)
    press(view, "Space")
    view.wait_for_function("() => video.paused")
    view.click("#review-shots .frame >> nth=5")
    view.wait_for_function("start => video.currentTime > start && !video.paused", arg=made.scenes.shots[5].start)
    view.click("#review-shots .boundary >> nth=1")
    assert boundaries(view)[0]


def test_an_answer_says_which_scene_ends_it_moved_elsewhere_with_a_link_to_each_and_one_undo(
    window: BrowserContext, tmp_path: Path
) -> None:
    with opened_page(window, tmp_path, pages.invented(200), pages.noise(10) * 20) as seen:
        page = seen.page
        press(page, "r")
        for _ in range(20):
            before, looked_at = ends_shown(page), shots_in_view(page)[:-1]
            press(page, *(str(i + 1) for i, is_marked in enumerate(boundaries(page)) if is_marked), "Enter")
            if page.is_visible("#elsewhere"):
                break
        after = set(ends_shown(page))
        removed, added = (sorted(ends - {*looked_at}) for ends in (set(before) - after, after - set(before)))
        for ends, word in ((removed, "removed"), (added, "added")):
            count = f"{len(ends)} end{'s' * (len(ends) > 1)} {word}"
            assert (count in page.inner_text("#elsewhere")) == bool(ends)
        moved = [*removed, *added]
        expect(page.locator("#track .moved")).to_have_count(len(moved))
        links = page.locator("#elsewhere span button")
        assert links.count() == len(moved) > 0
        links.last.click()
        assert page.get_attribute("#track", "aria-valuenow") == str(moved[-1] + 2), "the shot after the end"
        expect(page.locator("#track .moved")).to_have_count(0)
        page.click("#elsewhere >> text=Undo this answer")
        assert ends_shown(page) == before
        assert page.is_hidden("#elsewhere")


def test_scenes_by_hand_stay_and_only_the_look_changes_them(window: BrowserContext, tmp_path: Path) -> None:
    plain = pages.invented(40)
    for settings in ({"edited_by_hand": True}, {"scenes": 3}):
        scenes = replace(plain, settings={**plain.settings, **settings}, scenes=group_shots(plain.shots, [9, 25, 39]))
        with opened_page(window, tmp_path, scenes, pages.noise(10) * 4) as seen:
            press(seen.page, "r")
            first = shots_in_view(seen.page)[0]
            before = boundaries(seen.page)
            press(seen.page, "4", "Enter", "Escape")
            changed = {9, 25, 39} ^ {first + 3}
            assert before == [first + i in (9, 25, 39) for i in range(7)]
            assert ends_shown(seen.page) == sorted(changed)


def test_review_mode_is_accessible_and_fits_windows_of_all_sizes(view: Page) -> None:
    press(view, "r")
    view.click("#review-figures summary")
    assert faults(view) == []
    view.click("#review-figures summary")
    for width, height in ((360, 740), (768, 900), (1024, 900), (1440, 900)):
        resized(view, width, height)
        assert view.evaluate("document.documentElement.scrollWidth") == width
        confirm, player = box_of(view.locator("#review-confirm")), box_of(view.locator("#player"))
        assert confirm["y"] + confirm["height"] < player["y"] < height, "without scrolling"
    caption, tools = (box_of(view.locator(part).last) for part in ("#review-shots .caption", ".review-tools"))
    assert caption["y"] + caption["height"] <= tools["y"], "on a laptop the captions of all pictures are in view"
    press(view, "Enter", "?")
    assert faults(view) == []


def test_on_a_phone_the_question_is_above_the_pictures_and_nothing_is_about_keys_or_out_of_view(
    browser: Browser, made: Made
) -> None:
    phone = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    with opened(phone, made.path.as_uri()) as seen:
        page = seen.page
        assert page.evaluate(
            "[...document.querySelectorAll('h1, .list-tools')].every((one) => one.scrollWidth <= one.clientWidth)"
        )
        assert "Download" in page.inner_text("#save")
        page.tap("#start-review")
        assert page.inner_text("#review-question").startswith("Does a scene end between these shots? Mark each bar")
        question, picture = (box_of(page.locator(part).first) for part in ("#review-question", "#review-shots"))
        assert question["y"] + question["height"] <= picture["y"]
        assert page.locator("kbd:visible").count() == 0
        assert page.is_hidden("#keys")
    phone.close()


def test_an_editor_reads_one_sentence_and_the_figures_are_behind_a_disclosure(
    window: BrowserContext, tmp_path: Path
) -> None:
    with opened_page(window, tmp_path, pages.invented(200), pages.noise(10) * 20) as seen:
        page = seen.page
        press(page, "r")
        sentence = re.fullmatch(
            r"About (\d) of 10 scene ends are right; ten more questions make it (?:about )?(\d|nearly all)\.",
            page.inner_text("#review-f1"),
        )
        assert sentence is not None
        assert "%" not in page.inner_text("#review")
        assert "F1" not in page.inner_text("#review")
        page.click("#review-figures summary")
        assert re.search(r"Expected F1 \d+ %", page.inner_text("#review"))
        assert page.locator(".boundary .figure").count() == 7
        assert page.is_visible(".boundary .figure >> nth=0")
        for _ in range(3):
            press(page, "Enter")
        assert page.is_visible(".boundary .figure >> nth=0"), "they stay open"


def test_ten_more_looks_gain_as_much_as_the_page_expects(view: Page) -> None:
    rng = np.random.default_rng(3)
    for shots in (120, 12):
        scores = np.round(rng.beta(0.5, 2, shots), 3)
        state = python_review(scores, {}, 8)
        later = view.evaluate(
            """([scores, looks]) => {
                const { probabilities, least } = review(scores, new Map());
                return expectedAfter(probabilities, new Map(), least, looks);
            }""",
            [scores.tolist(), 10],
        )
        reached, looks = [], 0
        for _ in range(60):  # people whose answers are as probable as the model says
            truth = rng.random(shots - 1) < state.probabilities
            answers: dict[int, bool] = {}
            for looks in range(11):
                now = python_review(scores, answers, 8)
                if looks == 10 or now.window is None:
                    break
                answers |= {cut: bool(truth[cut]) for cut in range(now.window[0], now.window[1] - 1)}
            chosen = set(np.flatnonzero(now.probabilities >= now.expected_f1 / 2).tolist())
            ends = set(np.flatnonzero(truth).tolist())
            reached.append(2 * len(chosen & ends) / (len(chosen) + len(ends)) if chosen or ends else 1.0)
        assert later["looks"] == looks
        assert later["f1"] == pytest.approx(np.mean(reached), abs=0.04)
        assert later["f1"] >= state.expected_f1 - 1e-9


def test_a_video_of_one_shot_has_nothing_to_review(window: BrowserContext, tmp_path: Path) -> None:
    with opened_page(window, tmp_path, pages.invented(1), pages.noise(1)) as seen:
        press(seen.page, "r")
        assert seen.page.inner_text("#review-title") == "This video has one shot: there is nothing to review"
        assert "10" not in seen.page.inner_text("#review")
        assert "boundaries" not in seen.page.inner_text("#review")
        for hidden in ("#review-confirm", "#review-f1", "#review-figures", "#review-shots li"):
            assert not seen.page.is_visible(hidden), hidden
        press(seen.page, "Enter", "1", "Escape")


def test_a_long_shot_and_one_in_which_much_changes_show_their_first_and_last_keyframe(
    window: BrowserContext, tmp_path: Path
) -> None:
    images = ShotImages()
    plain = pages.invented(8)
    shades = [(40, 40, 40), (90, 40, 40), (40, 160, 40)]
    for shot in plain.shots:
        keyframes = (np.full((36, 64, 3), shades[k if shot.index == 2 else 0], np.uint8) for k in range(3))
        images.add(KeyframedShot(0, 0, 0, 0.0, 8.5 if shot.index == 5 else 8.0, tuple(keyframes), ()))
    assert [*images.sides] == [2, 5]
    with opened_page(window, tmp_path, plain, images) as seen:
        page = seen.page
        press(page, "r")
        shown = page.locator("#review-shots li").all()
        assert [tile.locator(".sides").is_visible() for tile in shown] == [i in (2, 5) for i in range(8)]
        page.wait_for_function("() => [...document.querySelectorAll('.sides img[src]')].every((one) => one.complete)")
        for image, shade in zip(shown[2].locator("img").all(), [shades[1], shades[0], shades[2]], strict=True):
            pixels = np.asarray(Image.open(BytesIO(image.screenshot())).convert("RGB"))
            assert np.abs(np.subtract(np.median(pixels, (0, 1)), shade)).max() < 12


# --- decisions outside review mode, and reviewed scenes ---------------------------------------------------------------


def test_reviewed_scenes_are_counted_and_no_setting_moves_them(view: Page, tmp_path: Path) -> None:
    assert view.inner_text("#reviewed-count") == "0 of 5 reviewed"
    press(view, "n", "v")
    assert view.locator(".reviewed >> nth=1").get_attribute("aria-pressed") == "true"
    assert view.inner_text("#reviewed-count") == "1 of 5 reviewed"
    assert pins(view, tmp_path) == {1: True, 2: False, 3: True}
    for threshold in (0.05, 0.99):
        slide(view, threshold)
        assert {1, 3} <= set(ends_shown(view))
        assert 2 not in ends_shown(view)
    press(view, "Control+z", "Control+z")
    view.click(".reviewed >> nth=0")
    assert view.inner_text("#reviewed-count") == "2 of 5 reviewed"
    view.click(".reviewed >> nth=1")
    assert view.inner_text("#reviewed-count") == "1 of 5 reviewed", "the mark of the neighbor stays"
    assert pins(view, tmp_path) == {0: False, 1: True}
    tile(view, 0).click()
    press(view, "n", "s")
    assert view.inner_text("#reviewed-count").startswith("1 of")


def test_the_filter_shows_what_is_not_reviewed_until_nothing_is_left(view: Page) -> None:
    view.check("#filter-unreviewed")
    for left in (5, 4):
        assert view.locator(".scene:not([hidden])").count() == left
        view.click(".scene:not([hidden]) .reviewed >> nth=0")
    # The scenes on either side have one shot, and so no boundary that this does not decide.
    view.click(".scene:not([hidden]) .reviewed >> nth=1")
    assert view.inner_text("#reviewed-count") == "5 of 5 reviewed"
    view.uncheck("#filter-unreviewed")
    assert view.locator(".scene:not([hidden])").count() == 5
