"""The page in windows of all sizes: nothing overflows or covers the list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import BrowserContext, Page

from tests import pages
from tests.browser.opening import TARGETS, Made, box_of, opened_page, press, resized

WIDTHS = (360, 768, 1024, 1280, 1920)
LONG = range(250, 350)
"""The shots of one scene, far down."""
MIDDLE = pages.invented(400).shots[LONG.start + 50].start / pages.invented(400).video.duration


@pytest.fixture(scope="module")
def view(window_of_file: BrowserContext, made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Four hundred shots with the video of another page, which is enough to have a player."""
    plain = pages.invented(400)
    scores = dict.fromkeys(LONG, 0.05) | {LONG.start - 1: 0.9, LONG.stop - 1: 0.9}
    shots = [replace(shot, score=scores.get(shot.index, shot.score)) for shot in plain.shots]
    listed = pages.grouped(shots, plain.video)
    first = replace(listed.scenes[0], name="A name without any end, " * 12)
    scenes = replace(listed, scenes=(first, *listed.scenes[1:]))
    with opened_page(window_of_file, tmp_path_factory.mktemp("long"), scenes, pages.noise(20) * 20, made.video) as seen:
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


SELECTED_IS_IN_VIEW = """
() => {
    const scene = document.querySelector(".scene.selected");
    const shown = scene.querySelector(".shot.selected");
    const box = (shown.checkVisibility() ? shown : scene).getBoundingClientRect();
    const found = [box.top + 4, box.bottom - 4].map((y) => document.elementFromPoint(box.left + box.width / 4, y));
    return found.every((one) => one && scene.contains(one));
}
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overflows_or_is_covered_at_any_window_size_and_the_selected_shot_is_in_view(
    view: Page, width: int
) -> None:
    for _ in ("a small player", "a large one"):
        resized(view, width)
        press(view, "Home")
        view.evaluate("scrollTo(0, 0)")
        for place in (0, box_of(view.locator("#track"))["width"] * MIDDLE):
            view.locator("#track").click(position={"x": place, "y": 8})
            resized(view, width)
            assert view.evaluate("document.documentElement.scrollWidth") == width
            assert view.evaluate(COVERED) == 0
        assert view.locator(".scene.selected .shot").count() == 100
        assert view.evaluate(SELECTED_IS_IN_VIEW)
        view.click("#larger")


@pytest.mark.parametrize("width", [360, 768])
def test_what_fingers_touch_is_40_pixels_wide_and_high(view: Page, width: int) -> None:
    resized(view, width)
    press(view, "ArrowRight")  # the button that splits before the selected shot
    view.click("#grouping summary")
    assert view.evaluate(TARGETS) == []
    view.click("#grouping summary")
    for shown in ("#keys", "#start-review"):
        view.click(shown)
        assert view.evaluate(TARGETS) == []
        press(view, "Escape")
