"""No correction is lost in the browser: reloading, closing, several windows with one page, and full storage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from pipelines.outputs.page import save_page
from tests import pages
from tests.browser.opening import (
    Made,
    asks_before_closing,
    ends_shown,
    go,
    new_tab,
    opened_page,
    press,
    ready,
    reopened,
    saved,
)

AS_IN_FILE = [1, 3, 4, 6, 7]


@pytest.fixture
def other(view: Page, made: Made) -> Page:
    """The page of `view` in another tab."""
    return go(new_tab(view.context), made.path.as_uri())


def name_first(page: Page, text: str) -> None:
    press(page, "Home", "e")
    page.keyboard.type(text)
    press(page, "Enter")


def names(page: Page) -> list[str]:
    return page.locator(".name").all_text_contents()


def test_unsaved_changes_are_restored_when_the_page_is_reopened(view: Page, made: Made, tmp_path: Path) -> None:
    ready(view)
    press(view, "n", "e")
    view.keyboard.type("Kept <b>safe</b>")
    press(view, "Enter", "n", "m", "Period", "c")
    before, content = ends_shown(view), json.loads(saved(view, tmp_path).read_text())
    assert view.is_hidden("#unsaved")
    press(view, "Home", "ArrowRight", "s")
    assert view.is_visible("#unsaved")
    press(view, "Control+z")
    reopened(view)
    assert "Restored your changes" in view.inner_text("#status")
    assert ends_shown(view) == before
    assert view.is_hidden("#unsaved"), "what was saved is known to be"
    assert json.loads(saved(view, tmp_path).read_text()) == content
    press(view, "Control+z")
    assert json.loads(saved(view, tmp_path).read_text()) == made.scenes.to_dict(made.path.parent)
    reopened(view)
    assert view.inner_text("#status") == "", "back at the file there is nothing to restore"


BEFORE_ITS_FIRST_FRAME = """
    window.early = null;
    requestAnimationFrame(() => { early ??= false; });
    const { get } = Object.getOwnPropertyDescriptor(window, "localStorage");
    Object.defineProperty(window, "localStorage", { get() { early ??= true; return get.call(this); } });
"""


def test_a_page_uses_its_storage_after_its_first_frame_because_chromium_may_lose_it_before(view: Page) -> None:
    view.add_init_script(BEFORE_ITS_FIRST_FRAME)
    assert reopened(view).evaluate("early") is False


UNFIT: tuple[dict[str, Any], ...] = (
    {"scenes": []},
    {"scenes": [{"start_frame": 0, "end_frame": 5000}]},
    {"cuts": [[12, 0.5]]},
    {"pins": [[13, True]]},
)


def test_stored_changes_that_do_not_match_are_not_restored(view: Page) -> None:
    press(view, "m")
    stored = json.loads(view.evaluate("Object.values(localStorage)[0]"))
    for text in ("no JSON", *(json.dumps(stored | {"changes": stored["changes"] | unfit}) for unfit in UNFIT)):
        view.evaluate("text => localStorage.setItem(Object.keys(localStorage)[0], text)", text)
        reopened(view)
        assert ends_shown(view) == AS_IN_FILE, text
        assert view.inner_text("#status") == "", text


def test_changes_stored_for_another_result_of_the_video_are_not_applied(window: BrowserContext, tmp_path: Path) -> None:
    with opened_page(window, tmp_path, pages.invented(6)) as seen:
        press(seen.page, "ArrowRight", "s")
        name_first(seen.page, "Kept")
        save_page(tmp_path / "page.html", pages.invented(6, seed=1))
        assert set(names(reopened(seen.page))) == {""}


def test_windows_with_one_page_show_the_last_change_and_undo_each_others(view: Page, other: Page, made: Made) -> None:
    name_first(other, "Of the other window")
    expect(view.locator(".name").first).to_have_text("Of the other window")
    press(view, "n", "m")
    expect(other.locator(".scene")).to_have_count(4)
    press(other, "Control+z")
    expect(view.locator(".scene")).to_have_count(5)
    expect(view.locator("#status")).to_have_text("Another window changed this page; Undo returns to yours.")
    press(view, "Control+z")
    expect(other.locator(".scene")).to_have_count(4)
    for page in (view, reopened(other)):
        assert (ends_shown(page), names(page)[0]) == ([1, 4, 6, 7], "Of the other window")


def test_opening_a_page_writes_nothing_and_restored_changes_that_are_undone_do_not_come_back(
    view: Page, other: Page
) -> None:
    press(other, "m")
    other.close()
    expect(view.locator(".scene")).to_have_count(4)
    content = "JSON.stringify(Object.entries(localStorage).sort())"
    before = view.evaluate(content)
    assert ends_shown(reopened(view)) == [3, 4, 6, 7]
    assert view.evaluate(content) == before
    press(view, "Control+z")
    assert ends_shown(reopened(view)) == AS_IN_FILE


@pytest.mark.parametrize("leave", ["close", "reload", "hide"])
def test_a_name_that_is_being_typed_is_kept_when_the_page_is_left(view: Page, other: Page, leave: str) -> None:
    press(other, "Home", "e")
    other.keyboard.type("Half a na")
    if leave == "close":
        other.close(run_before_unload=True)
    elif leave == "reload":
        other.reload()
    else:
        other.evaluate("Object.defineProperty(document, 'hidden', { value: true })")
        other.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        assert other.locator(".name input").count() == 0
    expect(view.locator(".name").first).to_have_text("Half a na")
    assert names(reopened(view))[0] == "Half a na"


FILLED = """
    for (let size = 1 << 22; size >= 1; size /= 2) {
        try { localStorage.setItem(`filled ${size}`, "x".repeat(size)); } catch {}
    }
"""  # up to the browser's limit, some five million characters


def test_with_full_storage_the_page_says_so_until_it_is_saved_and_asks_before_closing_also_while_a_name_is_typed(
    view: Page, tmp_path: Path
) -> None:
    press(view, "m")
    view.evaluate(FILLED)
    press(view, "Home", "e")
    view.keyboard.type("Not stored")
    assert asks_before_closing(view)
    assert names(view)[0] == "Not stored"
    assert "Save before you close" in view.inner_text("#not-kept")
    press(view, "n")
    assert view.is_visible("#not-kept")
    saved(view, tmp_path)
    view.once("dialog", lambda dialog: dialog.accept())
    assert names(reopened(view)) == [""] * 4, "what was stored before"
    view.evaluate("localStorage.clear()")
    press(view, "m")
    assert view.is_hidden("#not-kept"), "there is room again"
