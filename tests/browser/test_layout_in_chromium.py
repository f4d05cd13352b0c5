"""The page in windows of all sizes: nothing overflows or covers the list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from pipelines.outputs.page import save_page
from tests import pages
from tests.browser.opening import TARGETS, Made, opened, opened_page, tile

WIDTHS = (360, 390, 768, 1024, 1280, 1440, 1920)
LONG = range(250, 350)
"""The shots of one scene, far down."""
MIDDLE = pages.invented(400).shots[LONG.start + 50].start / pages.invented(400).video.duration


@pytest.fixture(scope="module")
def long_page(browser: Browser, made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Four hundred shots with the video of another page, which is enough to have a player."""
    path = tmp_path_factory.mktemp("long") / "page.html"
    plain = pages.invented(400)
    scores = dict.fromkeys(LONG, 0.05) | {LONG.start - 1: 0.9, LONG.stop - 1: 0.9}
    shots = [replace(shot, score=scores.get(shot.index, shot.score)) for shot in plain.shots]
    listed = pages.grouped(shots, plain.video)
    named = replace(listed.scenes[0], name="A name without any end, " * 12)
    save_page(path, replace(listed, scenes=(named, *listed.scenes[1:])), pages.noise(20) * 20, made.video)
    with opened(browser, path) as seen:
        yield seen.page


COVERED = """
() => [...document.querySelectorAll(".scene, .list-tools")].filter((part) => {
    const list = part.getBoundingClientRect();
    const player = document.querySelector(".player").getBoundingClientRect();
    const overlap = Math.min(list.right, player.right) - Math.max(list.left, player.left);
    // In one column the list passes behind the video, which stays; beside it, it must not.
    const beside = getComputedStyle(document.querySelector(".player")).position !== "fixed";
    return list.right > innerWidth || list.width > document.querySelector("main").clientWidth + 1
        || (overlap > 0 && beside);
}).length
"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("large", [False, True], ids=["list", "large player"])
def test_nothing_overflows_or_is_covered_at_any_window_size(long_page: Page, width: int, large: bool) -> None:
    page = long_page
    page.set_viewport_size({"width": width, "height": 900})
    if large:
        page.click("#larger")
    page.keyboard.press("Home")
    page.evaluate("scrollTo(0, 0)")
    for place in ("top", "long scene"):
        if place == "long scene":
            track = page.locator("#track").bounding_box()
            assert track is not None
            page.locator("#track").click(position={"x": track["width"] * MIDDLE, "y": 8})
            assert page.evaluate("document.querySelector('.scene.selected').querySelectorAll('.shot').length") == 100
        page.wait_for_timeout(50)
        assert page.evaluate("document.documentElement.scrollWidth") == width, place
        assert page.evaluate(COVERED) == 0, place
    hit = """() => {
        const scene = document.querySelector(".scene.selected");
        const shown = scene.querySelector(".shot.selected");
        const box = (shown.checkVisibility() ? shown : scene).getBoundingClientRect();
        const found = [box.top + 4, box.bottom - 4].map((y) => document.elementFromPoint(box.left + box.width / 4, y));
        return found.every((one) => one && scene.contains(one));
    }"""
    is_hit = page.evaluate(hit)
    if large:
        page.click("#larger")
    assert is_hit, "the selected shot is in view, and nothing covers it"


@pytest.mark.parametrize(("width", "height"), [(360, 740), (390, 844), (768, 1024), (768, 900)])
def test_scenes_are_on_the_first_screen_of_phones_and_tablets(long_page: Page, width: int, height: int) -> None:
    long_page.set_viewport_size({"width": width, "height": height})
    long_page.keyboard.press("Home")
    long_page.evaluate("scrollTo(0, 0)")
    long_page.wait_for_timeout(100)
    first = tile(long_page, 0).bounding_box()
    player = long_page.locator("#player").bounding_box()
    scenes = long_page.locator("#scenes").bounding_box()
    assert first is not None
    assert player is not None
    assert scenes is not None
    assert first["y"] + first["height"] < player["y"]
    assert player["y"] - scenes["y"] > 0.4 * height, "the part of the screen for scenes"
    assert long_page.is_visible("#number")
    long_page.click("#grouping summary")
    assert long_page.is_visible("#threshold")
    long_page.click("#grouping summary")


def test_the_timeline_with_its_legend_takes_at_most_a_fifth_of_the_window(view: Page, long_page: Page) -> None:
    for page in (view, long_page):
        page.set_viewport_size({"width": 1440, "height": 900})
        page.wait_for_timeout(100)
        assert page.is_visible(".timeline .legend")
        assert page.evaluate("document.querySelector('.timeline').offsetHeight") <= 900 / 5


MISPLACED_MERGES = """
() => [...document.querySelectorAll(".scene + .scene")].filter((scene) => {
    const [box, merge] = [scene, scene.querySelector(".merge")].map((part) => part.getBoundingClientRect());
    const { left, right, top, bottom } = merge;
    return left < 0 || left >= box.left || right <= box.left || top < box.top || bottom > box.bottom;
}).length
"""


@pytest.mark.parametrize("width", [360, 768, 1440])
def test_scenes_are_merged_on_their_border_to_the_scene_before(long_page: Page, width: int) -> None:
    long_page.set_viewport_size({"width": width, "height": 900})
    long_page.wait_for_timeout(100)
    assert long_page.evaluate(MISPLACED_MERGES) == 0


def test_scenes_of_few_shots_share_rows(browser: Browser, tmp_path: Path) -> None:
    plain = pages.invented(350)
    shots = [replace(shot, score=0.9) for shot in plain.shots]
    with opened_page(browser, tmp_path, pages.grouped(shots, plain.video), pages.noise(10) * 35) as seen:
        for width, across in ((1440, 6), (768, 4), (360, 3)):
            seen.page.set_viewport_size({"width": width, "height": 900})
            seen.page.wait_for_timeout(100)
            tops = seen.page.eval_on_selector_all(".scene", "all => all.map(one => one.getBoundingClientRect().top)")
            assert len(tops) == 350
            assert len(set(tops)) <= -(-350 // across)


@pytest.mark.parametrize("width", [360, 768])
def test_what_fingers_touch_is_40_pixels_wide_and_high(long_page: Page, width: int) -> None:
    long_page.set_viewport_size({"width": width, "height": 900})
    long_page.keyboard.press("ArrowRight")  # the button that splits before the selected shot
    long_page.click("#grouping summary")
    assert long_page.evaluate(TARGETS) == []
    long_page.click("#grouping summary")
    for shown in ("#keys", "#start-review"):
        long_page.click(shown)
        assert long_page.evaluate(TARGETS) == []
        long_page.keyboard.press("Escape")
