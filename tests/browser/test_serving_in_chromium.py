"""The page that `bassl review` serves: it saves in place, exports, and loses nothing whatever happens meanwhile."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from pipelines.datasets.scenes_json import read_scene_list, with_video
from pipelines.outputs.exports import FORMATS
from pipelines.outputs.server import ReviewServer
from pipelines.stages.regroup import regroup
from pipelines.stages.review import ReviewSession
from tests import pages, videos
from tests.browser.opening import (
    TARGETS,
    Made,
    asks_before_closing,
    box_of,
    ends_shown,
    faults,
    go,
    laid_out,
    opened,
    press,
    ready,
    reopened,
    resized,
    shows_frame,
)


@dataclass
class Reviewed:
    """A review in a browser."""

    folder: Path
    server: ReviewServer
    session: ReviewSession
    page: Page
    told: list[str]

    @property
    def result(self) -> Path:
        return self.folder / "movie.scenes.json"

    def tab(self) -> Page:
        return go(self.page.context.new_page(), self.server.address)


@contextmanager
def reviewed(window: BrowserContext, folder: Path, source: Path | None = None) -> Iterator[Reviewed]:
    told: list[str] = []
    session = ReviewSession(source or folder / "movie.mp4", notify=told.append)
    with ReviewServer() as server:
        server.show(session)
        with opened(window, server.address) as seen:
            yield Reviewed(folder, server, session, seen.page, told)
            seen.complaints[:] = [text for text in seen.complaints if not text.startswith("Failed to load resource")]
        session.finish()


@pytest.fixture(scope="module")
def movie(tmp_path_factory: pytest.TempPathFactory, made: Made) -> Path:
    """A folder with a video and its result."""
    folder = tmp_path_factory.mktemp("movie")
    assert made.video is not None
    shutil.copy(made.video, folder / "movie.mp4")
    with_video(made.scenes, folder / "movie.mp4").save(folder / "movie.scenes.json")
    return folder


@pytest.fixture
def place(movie: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in movie.iterdir():
        shutil.copy(file, tmp_path / file.name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def seen(window: BrowserContext, place: Path) -> Iterator[Reviewed]:
    with reviewed(window, place) as review:
        yield review


def save(page: Page) -> None:
    page.click("#save")
    expect(page.locator("#status")).to_have_text("Saved movie.scenes.json.")


def ends_saved(path: Path) -> list[int]:
    return [scene.end_shot - 1 for scene in read_scene_list(path).scenes]


def test_what_is_saved_is_in_the_result_and_a_reload_shows_it(seen: Reviewed) -> None:
    page = seen.page
    press(page, "n", "m", "e")
    page.keyboard.type("Zürich <b>")
    press(page, "Enter")
    expect(page.locator("#unsaved")).to_be_visible()
    save(page)
    expect(page.locator("#unsaved")).to_be_hidden()
    assert ends_saved(seen.result) == ends_shown(page) == [1, 4, 6, 7]
    result = read_scene_list(seen.result)
    assert result.scenes[1].name == "Zürich <b>"
    assert {shot.index: shot.pinned for shot in result.shots if shot.pinned is not None} == {3: False}
    assert seen.told == ["saved movie.scenes.json: 4 scenes"]
    assert page.evaluate("Object.keys(localStorage).length") == 0, "what is in the file need not be kept"
    assert ends_shown(reopened(page)) == [1, 4, 6, 7]
    assert page.inner_text("#status") == ""


def test_cuts_and_changes_after_a_save_are_saved_and_survive_a_reload(seen: Reviewed) -> None:
    page = ready(seen.page)
    press(page, "n", "Period", "Period", "Period", "c")
    save(page)
    assert len(read_scene_list(seen.result).shots) == 9
    press(page, "Home", "n", "m")
    before = ends_shown(page)
    assert ends_shown(reopened(page)) == before
    assert "Restored your changes" in page.inner_text("#status")
    expect(page.locator("#unsaved")).to_be_visible()
    save(page)
    assert ends_saved(seen.result) == before
    press(page, "Control+z")
    save(page)
    assert len(ends_saved(seen.result)) == len(before) + 1


def test_the_video_plays_and_seeks_to_the_frame(seen: Reviewed, made: Made) -> None:
    page = ready(seen.page)
    for shot in (5, 2):
        page.locator(".shot .frame").nth(shot).click()
        assert shows_frame(page, made.scenes.shots[shot].start_frame)
    press(page, "Home", "Space")
    page.wait_for_function("() => video.currentTime > 0.3")


def test_done_saves_and_ends_the_review_which_names_an_outdated_page_only_if_the_result_changed(seen: Reviewed) -> None:
    (seen.folder / "movie.scenes.html").write_text("a page")
    assert seen.session.finish().notes == ()
    press(seen.page, "n", "m")
    seen.page.click("#done")
    expect(seen.page.locator("#finished")).to_have_text("The review is done. You can close this window.")
    assert seen.server.wait() == 1
    assert ends_saved(seen.result) == [1, 4, 6, 7]
    result = seen.session.finish()
    assert (result.saved, result.exported) == (True, ())
    assert "movie.scenes.html still shows the scenes before" in result.notes[0]


def test_every_format_is_in_the_menu_once_and_exports_have_what_is_shown(seen: Reviewed) -> None:
    page = seen.page
    press(page, "n", "m", "r")
    page.click("#exports")
    shown = page.locator("#export-menu button").all_inner_texts()
    assert [text.split("\n") for text in shown] == [[form.purpose, name] for name, form in FORMATS.items()]
    for name in ("edl", "webvtt"):
        page.click(f"#export-menu [data-format={name}]")
        expect(page.locator("#exported")).to_contain_text(f"Wrote movie.scenes{FORMATS[name].extension}.")
    assert ends_saved(seen.result) == [1, 4, 6, 7], "saved before"
    assert (seen.folder / "movie.scenes.edl").read_text().count("* COMMENT: ") == 4
    assert len(seen.session.finish().exported) == 2
    press(page, "Escape")
    expect(page.locator("#export-menu")).to_be_hidden()
    assert page.is_visible("#review"), "Esc closes the menu and not the review"


def test_of_two_windows_the_second_to_save_is_asked(seen: Reviewed) -> None:
    first, second = seen.page, seen.tab()
    press(first, "n", "m")
    expect(second.locator(".scene")).to_have_count(4)
    save(first)
    press(second, "End", "Shift+M")
    second.click("#save")
    note = second.locator("#save-note")
    expect(note).to_contain_text("movie.scenes.json was changed by another program or window")
    assert ends_saved(seen.result) == ends_shown(first) == [1, 4, 6, 7], "not replaced"
    second.click("#replace-file")
    expect(note).to_be_hidden()
    assert ends_saved(seen.result) == ends_shown(second) == [1, 4, 7]
    press(first, "Home", "ArrowRight", "s")
    first.click("#done")
    expect(first.locator("#save-note")).to_be_visible()
    assert first.is_hidden("#finished"), "not done before the person has answered"
    first.click("#show-file")
    expect(first.locator("#save-note")).to_be_hidden()
    expect(first.locator(".scene")).to_have_count(3)
    assert ends_shown(first) == [1, 4, 7]


def test_changes_of_windows_with_two_versions_of_the_file_are_not_lost_unasked(seen: Reviewed) -> None:
    first, second = seen.page, seen.tab()
    press(first, "n", "m")
    save(first)
    press(first, "Home", "e")
    first.keyboard.type("Mine")
    press(first, "Enter")
    press(second, "End", "Shift+M")  # replaces the changes of the first window in the browser
    expect(first.locator("#not-kept")).to_be_visible()
    assert asks_before_closing(first)
    save(first)
    expect(first.locator("#not-kept")).to_be_hidden()


@pytest.mark.parametrize("is_wanted", [True, False])
def test_changes_of_before_the_file_changed_are_offered_and_not_lost(seen: Reviewed, is_wanted: bool) -> None:
    page = seen.page
    press(page, "n", "m")
    mine = ends_shown(page)
    regroup(seen.result, threshold=0.8)
    theirs = ends_saved(seen.result)
    assert theirs != mine
    for _ in range(2):  # until it is answered
        assert ends_shown(reopened(page)) == theirs
        expect(page.locator("#offer")).to_contain_text("This browser has changes that are not in the file")
    page.click("#use-offer" if is_wanted else "#refuse-offer")
    assert ends_shown(page) == (mine if is_wanted else theirs)
    if is_wanted:
        save(page)
    assert ends_saved(seen.result) == ends_shown(page)
    assert reopened(page).is_hidden("#offer")


@pytest.mark.parametrize("has_same_shots", [True, False])
def test_what_another_program_writes_meanwhile_is_not_replaced_unasked(seen: Reviewed, has_same_shots: bool) -> None:
    page = seen.page
    press(page, "n", "m")
    if has_same_shots:
        regroup(seen.result, threshold=0.8)
    else:
        with_video(videos.scenes_of(seen.folder / "movie.mp4", (20, 50)), seen.folder / "movie.mp4").save(seen.result)
    theirs = seen.result.read_bytes()
    page.click("#save")
    note = page.locator("#save-note")
    expect(note).to_contain_text("movie.scenes.json was changed by another program or window since this page read it")
    fits = "this browser keeps your changes" if has_same_shots else "download yours before you show it"
    expect(note).to_contain_text(fits)
    page.click("#exports")
    page.click("#export-menu [data-format=edl]")
    expect(note).to_be_visible()
    press(page, "Escape")
    page.click("#done")
    expect(page.locator("#finished")).to_be_hidden()
    assert seen.result.read_bytes() == theirs
    assert not (seen.folder / "movie.scenes.edl").exists()
    with page.expect_download() as download:
        page.click("#download-copy")
    download.value.save_as(seen.folder / "mine.json")
    assert ends_saved(seen.folder / "mine.json") == [1, 4, 6, 7]
    page.click("#show-file")
    expect(note).to_be_hidden()
    expect(page.locator(".scene")).to_have_count(len(ends_saved(seen.result)))
    assert ends_shown(page) == ends_saved(seen.result)
    if has_same_shots:
        page.click("#use-offer")
        save(page)
        assert ends_saved(seen.result) == [1, 4, 6, 7]


def test_when_the_server_is_gone_the_page_says_so_and_the_next_review_has_the_changes(
    window: BrowserContext, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place))  # a port of its own is the usual one
    page = window.new_page()
    with ReviewServer() as server:
        server.show(ReviewSession(place / "movie.mp4"))
        port = server.port
        press(go(page, server.address), "n", "m")
    page.click("#save")
    expect(page.locator("#save-note")).to_contain_text("bassl review has ended. This browser keeps your changes")
    expect(page.locator("#unsaved")).to_be_visible()
    page.click("#done")
    expect(page.locator("#finished")).to_be_hidden()
    with ReviewServer() as server:
        assert server.port == port
        server.show(ReviewSession(place / "movie.mp4"))
        go(page, server.address)
        assert "Restored your changes" in page.inner_text("#status")
        save(page)
    assert ends_saved(place / "movie.scenes.json") == [1, 4, 6, 7]
    page.close()


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A disk, with a cache that is empty, on which there is no space until it is undone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def flush(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.files._flush", flush)
        yield patch


def test_on_a_full_disk_nothing_is_lost_and_the_note_stays_until_it_is_saved(
    seen: Reviewed, full_disk: pytest.MonkeyPatch
) -> None:
    before = seen.result.read_bytes()
    page = seen.page
    press(page, "n", "m")
    page.click("#done")
    expect(page.locator("#save-note")).to_contain_text("cannot be written (no space left on device)")
    assert page.is_visible("#unsaved")
    assert seen.result.read_bytes() == before
    full_disk.undo()
    save(page)
    expect(page.locator("#save-note")).to_be_hidden()
    assert ends_saved(seen.result) == [1, 4, 6, 7]


def test_a_person_goes_through_several_videos_in_one_window_until_one_cannot_be_opened(
    window: BrowserContext, place: Path
) -> None:
    (place / "next.scenes.json").write_bytes(b" " + (place / "movie.scenes.json").read_bytes())
    page, old, late = (window.new_page() for _ in range(3))
    with ReviewServer() as server:

        def opens(name: str, *turn: Any) -> None:
            server.show(ReviewSession(place / name, turn=turn))
            expect(page.locator("#save")).to_contain_text(name.replace("mp4", "scenes.json"))
            expect(page.locator("#count").locator("..")).to_contain_text(f"{turn[0]} of 3 ·")
            laid_out(page)  # with its first frame it shows what this browser kept

        server.show(ReviewSession(place / "movie.mp4", turn=(1, 3, "next.scenes.json")))
        for tab in (old, page):
            go(tab, server.address)
        assert page.is_disabled("#previous")
        press(page, "n", "m")
        expect(page.locator("#done")).to_have_attribute("title", "Save, then open next.scenes.json")
        page.click("#done")
        assert server.wait() == 1
        late.goto(f"{server.address}#review")
        expect(late.locator("p")).to_have_text("Opening the video …")
        expect(page.locator("#status")).to_have_text("Opening next.scenes.json …")
        opens("next.scenes.json", 2, 3, "broken.scenes.json")
        for tab in (page, late):
            expect(tab.locator("#review-title")).to_have_text("Question 1", timeout=15_000)
        old.click("#done")
        expect(old.locator("#save-note")).to_be_visible()
        press(page, "Escape", "n", "m")
        page.click("#previous")
        assert server.wait() == -1, "a window of the video before did not end this one"
        opens("movie.mp4", 1, 3, "next.scenes.json")
        assert ends_shown(page) == [1, 4, 6, 7], "as it was saved"
        page.click("#skip")
        assert server.wait() == 1
        opens("next.scenes.json", 2, 3, "broken.scenes.json")
        assert ends_shown(page) == [1, 4, 6, 7], "this browser kept it"
        page.click("#skip")
        assert server.wait() == 1
    expect(page.locator("#finished")).to_be_visible()
    assert ends_saved(place / "movie.scenes.json") == [1, 4, 6, 7]
    assert ends_saved(place / "next.scenes.json") == [1, 3, 4, 6, 7], "only the browser has it"
    for tab in (page, old, late):
        tab.close()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("movie.mov", {"codec": "prores_ks", "pixel_format": "yuv422p10le", "sound_seconds": 5.0}),
        ("movie.avi", {"codec": "mpeg4"}),
    ],
)
def test_footage_that_the_browser_cannot_show_is_shown_by_a_copy_and_cut_at_its_frames(
    window: BrowserContext, tmp_path: Path, full_disk: pytest.MonkeyPatch, name: str, options: dict[str, Any]
) -> None:
    video = videos.write_video(tmp_path / name, videos.images(120, pages.CUTS, 320, 180), **options)
    scenes = videos.scenes_of(video, pages.CUTS)
    (tmp_path / "movie.scenes.json").write_text(json.dumps(scenes.to_dict(tmp_path)))
    with reviewed(window, tmp_path, source=video) as seen:
        expect(seen.page.locator("#video-note")).to_contain_text("no space left on device")
        full_disk.undo()
        page = reopened(seen.page)  # which tries again
        page.wait_for_function("() => video.videoWidth > 0 && video.readyState >= 2")
        assert page.evaluate("video.currentSrc").endswith("/proxy")
        assert seen.told[0].startswith(f"browsers cannot show {video}; making a copy that they can show in ")
        for shot in (3, 1):
            page.locator(".shot .frame").nth(shot).click()
            assert shows_frame(page, scenes.shots[shot].start_frame)
        press(page, "Period", "Period")
        assert shows_frame(page, scenes.shots[1].start_frame + 2)
        press(page, "c")
        save(page)
        assert read_scene_list(seen.result).shots[2].start_frame == scenes.shots[1].start_frame + 2


def test_the_served_page_is_accessible_and_its_menu_and_notes_fit_windows_of_all_sizes(seen: Reviewed) -> None:
    page = seen.page
    press(page, "n", "m")
    seen.result.write_bytes(seen.result.read_bytes() + b" ")
    page.click("#save")
    expect(page.locator("#save-note")).to_be_visible()
    page.click("#exports")
    assert faults(page) == []
    for width in (390, 768, 1440):
        resized(page, width, 800)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert width > 768 or page.evaluate(TARGETS) == []
        assert page.is_visible("#export-menu >> text=Chapters for YouTube")
        for shown in ("#export-menu", "#save-note", "#save span", "#done span"):
            box = box_of(page.locator(shown))
            assert box["x"] >= 0
            assert box["width"] > 20, "a label"
            assert box["x"] + box["width"] <= width
    press(page, "Escape")
    page.click("#replace-file")
    page.click("#done")
    expect(page.locator("#finished")).to_be_visible()
    assert faults(page) == []
