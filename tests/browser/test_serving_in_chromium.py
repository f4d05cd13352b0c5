"""The page that `bassl review` serves: it saves in place, exports, and loses nothing whatever happens meanwhile."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from pipelines.datasets.scenes_json import read_scene_list, with_video
from pipelines.datasets.synthetic import SyntheticVideo
from pipelines.outputs.exports import FORMATS
from pipelines.outputs.server import ReviewServer
from pipelines.stages.regroup import regroup
from pipelines.stages.review import ReviewSession
from tests import pages, videos
from tests.browser.opening import TARGETS, Made, ends_shown, faults, frame_shown, opened_page, press, ready
from tests.command import bassl_process
from tests.running import ENVIRONMENT


@dataclass
class Reviewed:
    """A review in a browser."""

    folder: Path
    server: ReviewServer
    session: ReviewSession
    page: Page
    told: list[str]
    complaints: list[str] = field(default_factory=list)

    @property
    def result(self) -> Path:
        return self.folder / "movie.scenes.json"

    def window(self) -> Page:
        page = self.page.context.new_page()
        return opened_at(page, self.server.address)


def opened_at(page: Page, address: str) -> Page:
    page.set_default_timeout(30_000)
    page.goto(address)
    page.wait_for_selector(".scene")
    return page


@contextmanager
def reviewed(browser: Browser, folder: Path, source: Path | None = None, **options: Any) -> Iterator[Reviewed]:
    told: list[str] = []
    session = ReviewSession(source or folder / "movie.mp4", notify=told.append)
    with ReviewServer() as server:
        server.show(session)
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        page = context.new_page()
        review = Reviewed(folder, server, session, page, told)
        page.on("pageerror", lambda error: review.complaints.append(str(error)))
        opened_at(page, server.address)
        yield review
        context.close()
        session.finish()
        assert review.complaints == []


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
def seen(browser: Browser, place: Path) -> Iterator[Reviewed]:
    with reviewed(browser, place) as review:
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
    page.reload()
    page.wait_for_selector(".scene")
    assert ends_shown(page) == [1, 4, 6, 7]
    assert page.inner_text("#status") == ""


def test_cuts_and_changes_after_a_save_are_saved_and_survive_a_reload(seen: Reviewed) -> None:
    page = ready(seen.page)
    press(page, "n", "Period", "Period", "Period")
    frame_shown(page)
    press(page, "c")
    save(page)
    assert len(read_scene_list(seen.result).shots) == 9
    press(page, "Home", "n", "m")
    before = ends_shown(page)
    page.reload()
    page.wait_for_selector(".scene")
    assert "Restored your changes" in page.inner_text("#status")
    assert ends_shown(page) == before
    expect(page.locator("#unsaved")).to_be_visible()
    save(page)
    assert ends_saved(seen.result) == before
    press(page, "Control+z")
    save(page)
    assert len(ends_saved(seen.result)) == len(before) + 1


def test_the_video_plays_and_seeks_to_the_frame(seen: Reviewed) -> None:
    page = ready(seen.page)
    for shot in (5, 2, 7):
        page.locator(".shot .frame").nth(shot).click()
        assert frame_shown(page) == seen.session._opened.scenes.shots[shot].start_frame
    press(page, "Home", "Space")
    page.wait_for_function("() => video.currentTime > 0.3")


def test_done_saves_and_ends_the_review(seen: Reviewed) -> None:
    waiting = threading.Thread(target=seen.server.wait)
    waiting.start()
    press(seen.page, "n", "m")
    seen.page.click("#done")
    expect(seen.page.locator("#finished")).to_have_text("The review is done. You can close this window.")
    waiting.join(10)
    assert not waiting.is_alive()
    assert ends_saved(seen.result) == [1, 4, 6, 7]
    result = seen.session.finish()
    assert (result.saved, result.exported) == (True, ())


def test_every_format_is_in_the_menu_once_and_exported_as_by_the_command(seen: Reviewed) -> None:
    page = seen.page
    press(page, "n", "m")
    page.click("#exports")
    shown = page.locator("#export-menu button").all_inner_texts()
    assert [text.split("\n") for text in shown] == [[form.purpose, name] for name, form in FORMATS.items()]
    for name, form in FORMATS.items():
        page.locator(f"#export-menu [data-format={name}]").click()
        expect(page.locator("#exported")).to_contain_text(f"Wrote movie.scenes{form.extension}.")
    assert ends_saved(seen.result) == [1, 4, 6, 7], "saved before"
    assert (seen.folder / "movie.scenes.edl").read_text().count("\n002 ") == 1
    assert len(seen.session.finish().exported) == len(FORMATS)


def test_esc_closes_the_export_menu_and_not_the_review(seen: Reviewed) -> None:
    press(seen.page, "r")
    seen.page.click("#exports")
    press(seen.page, "Escape")
    expect(seen.page.locator("#export-menu")).to_be_hidden()
    assert seen.page.is_visible("#review")


def test_of_two_windows_the_second_to_save_is_asked(seen: Reviewed) -> None:
    first, second = seen.page, seen.window()
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
    assert seen.server._session is not None, "not done before the person has answered"
    first.click("#show-file")
    first.wait_for_function("() => document.getElementById('save-note').hidden")
    first.wait_for_selector(".scene")
    assert ends_shown(first) == [1, 4, 7]


def test_changes_of_windows_with_two_versions_of_the_file_are_not_lost_unasked(seen: Reviewed) -> None:
    first, second = seen.page, seen.window()
    press(first, "n", "m")
    save(first)
    press(first, "Home", "e")
    first.keyboard.type("Mine")
    press(first, "Enter")
    press(second, "End", "Shift+M")  # replaces the changes of the first window in the browser
    expect(first.locator("#not-kept")).to_be_visible()
    with first.expect_event("dialog") as dialog:
        first.on("dialog", lambda shown: shown.dismiss())
        first.evaluate("void setTimeout(() => location.reload())")
    assert dialog.value.type == "beforeunload"
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
        page.reload()
        page.wait_for_selector(".scene")
        assert ends_shown(page) == theirs
        expect(page.locator("#offer")).to_contain_text("This browser has changes that are not in the file")
    page.click("#use-offer" if is_wanted else "#refuse-offer")
    assert ends_shown(page) == (mine if is_wanted else theirs)
    if is_wanted:
        save(page)
    assert ends_saved(seen.result) == ends_shown(page)
    page.reload()
    page.wait_for_selector(".scene")
    assert page.is_hidden("#offer")


@pytest.mark.parametrize(
    ("command", "is_same"), [("regroup movie.mp4 --threshold 0.8", True), ("predict movie.mp4 --overwrite", False)]
)
def test_what_another_command_writes_meanwhile_is_not_replaced_unasked(
    seen: Reviewed, command: str, is_same: bool
) -> None:
    page = seen.page
    press(page, "n", "m")
    assert bassl_process(command, seen.folder).code == 0
    predicted = seen.result.read_bytes()
    page.click("#save")
    note = page.locator("#save-note")
    expect(note).to_contain_text("movie.scenes.json was changed by another program or window since this page read it")
    expect(note).to_contain_text("this browser keeps your changes" if is_same else "download yours before you show it")
    page.click("#exports")
    page.click("#export-menu [data-format=edl]")
    expect(note).to_be_visible()
    press(page, "Escape")
    page.click("#done")
    expect(page.locator("#finished")).to_be_hidden()
    assert seen.result.read_bytes() == predicted
    assert not (seen.folder / "movie.scenes.edl").exists()
    with page.expect_download() as download:
        page.click("#download-copy")
    download.value.save_as(seen.folder / "mine.json")
    assert ends_saved(seen.folder / "mine.json") == [1, 4, 6, 7]
    page.click("#show-file")
    page.wait_for_function("() => document.getElementById('save-note').hidden")
    page.wait_for_selector(".scene")
    assert ends_shown(page) == ends_saved(seen.result)
    if is_same:
        page.click("#use-offer")
        save(page)
        assert ends_saved(seen.result) == [1, 4, 6, 7]


def test_when_the_server_is_gone_the_page_says_so_and_the_next_review_has_the_changes(
    browser: Browser, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place))  # a port of its own is the usual one
    context = browser.new_context()
    page = context.new_page()
    with ReviewServer() as server:
        server.show(ReviewSession(place / "movie.mp4"))
        opened_at(page, server.address)
        port = server.port
        press(page, "n", "m")
    page.click("#save")
    expect(page.locator("#save-note")).to_contain_text("bassl review has ended. This browser keeps your changes")
    expect(page.locator("#unsaved")).to_be_visible()
    page.click("#done")
    expect(page.locator("#finished")).to_be_hidden()
    with ReviewServer() as server:
        assert server.port == port
        server.show(ReviewSession(place / "movie.mp4"))
        opened_at(page, server.address)
        assert "Restored your changes" in page.inner_text("#status")
        save(page)
    assert ends_saved(place / "movie.scenes.json") == [1, 4, 6, 7]
    context.close()


def test_on_a_full_disk_nothing_is_lost_and_the_note_stays_until_it_is_saved(
    seen: Reviewed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = seen.result.read_bytes()
    page = seen.page
    press(page, "n", "m")
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.files._flush", full)
        page.click("#done")
        expect(page.locator("#save-note")).to_contain_text("cannot be written (no space left on device)")
        page.wait_for_timeout(300)
        assert page.is_visible("#save-note")
        assert page.is_visible("#unsaved")
        assert seen.result.read_bytes() == before
    save(page)
    expect(page.locator("#save-note")).to_be_hidden()
    assert ends_saved(seen.result) == [1, 4, 6, 7]


def test_a_result_that_is_damaged_meanwhile_is_an_error_on_the_page(seen: Reviewed) -> None:
    before = seen.result.read_bytes()
    seen.result.write_text("{}")
    response = seen.page.goto(seen.server.address)
    assert response is not None
    assert response.status == 422
    assert "is not a scenes.json" in json.loads(response.body())["error"]
    seen.result.write_bytes(before)


def test_a_person_goes_through_several_videos_in_one_window_until_one_cannot_be_opened(
    browser: Browser, place: Path
) -> None:
    (place / "next.scenes.json").write_bytes(b" " + (place / "movie.scenes.json").read_bytes())
    page = browser.new_context().new_page()
    with ReviewServer() as server:

        def opens(name: str, *turn: Any) -> None:
            server.show(ReviewSession(place / name, turn=turn))
            expect(page.locator("#save")).to_contain_text(name.replace("mp4", "scenes.json"))
            expect(page.locator("#count").locator("..")).to_contain_text(f"{turn[0]} of 3 ·")

        server.show(ReviewSession(place / "movie.mp4", turn=(1, 3, "next.scenes.json")))
        old = opened_at(page.context.new_page(), server.address)
        opened_at(page, server.address)
        assert page.is_disabled("#previous")
        press(page, "n", "m")
        assert (page.inner_text("#done"), page.get_attribute("#done", "title")) == (
            "Next", "Save, then open next.scenes.json",
        )  # fmt: skip
        page.click("#done")
        assert server.wait() == 1
        late = page.context.new_page()
        late.goto(f"{server.address}#review")
        expect(late.locator("p")).to_have_text("Opening the video …")
        expect(page.locator("#status")).to_have_text("Opening next.scenes.json …")
        opens("next.scenes.json", 2, 3, "broken.scenes.json")
        for window in (page, late):
            expect(window.locator("#review-title")).to_have_text("Question 1", timeout=15_000)
        old.click("#done")
        expect(old.locator("#save-note")).to_be_visible()
        assert server._session is not None, "a window of the video before does not end this one"
        press(page, "Escape", "n", "m")
        page.click("#previous")
        assert server.wait() == -1
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
    page.context.close()


def test_a_save_that_fails_in_the_page_says_so_and_the_next_one_saves(seen: Reviewed) -> None:
    press(seen.page, "n", "m")
    seen.page.evaluate(
        """const whole = JSON.stringify;
        JSON.stringify = (value, ...others) => {
            if (!value?.shots) return whole(value, ...others);
            JSON.stringify = whole;
            throw Error("odd");
        };"""
    )
    seen.page.click("#save")
    expect(seen.page.locator("#save-note")).to_contain_text("Not done: odd.")
    save(seen.page)
    assert ends_saved(seen.result) == [1, 4, 6, 7]


@pytest.mark.parametrize(
    ("name", "rate", "options"),
    [
        ("movie.mp4", 24, {"codec": "libx265", "options": {"preset": "ultrafast", "x265-params": "log-level=none"}}),
        ("movie.mov", 24, {"codec": "prores_ks", "pixel_format": "yuv422p10le", "sound_seconds": 5.0}),
        ("movie.mxf", 25, {"codec": "mpeg2video"}),
        ("movie.avi", 24, {"codec": "mpeg4"}),
    ],
)
def test_footage_that_the_browser_cannot_show_is_shown_by_a_copy_and_cut_at_its_frames(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, rate: float, options: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    video = videos.write_video(tmp_path / name, videos.images(120, pages.CUTS, 320, 180), rate, **options)
    scenes = videos.scenes_of(video, pages.CUTS)
    scenes.save(tmp_path / "movie.scenes.json")
    with reviewed(browser, tmp_path, source=video) as seen:
        page = seen.page
        page.wait_for_function("() => video.videoWidth > 0 && video.readyState >= 2")
        assert page.evaluate("video.currentSrc").endswith("/proxy")
        assert seen.told[0].startswith(f"browsers cannot show {video}; making a copy that they can show in ")
        for shot in (3, 6, 1):
            page.locator(".shot .frame").nth(shot).click()
            assert frame_shown(page) == scenes.shots[shot].start_frame
        press(page, "Period", "Period")
        assert frame_shown(page) == scenes.shots[1].start_frame + 2
        press(page, "c")
        save(page)
        assert scenes.shots[1].start_frame + 2 in [shot.start_frame for shot in read_scene_list(seen.result).shots]


def test_a_page_that_is_a_file_says_that_its_video_cannot_be_shown_and_cuts_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    options = {"preset": "ultrafast", "x265-params": "log-level=none"}
    video = videos.write_video(
        tmp_path / "movie.mp4", videos.images(120, pages.CUTS), codec="libx265", options=options, sound_seconds=5
    )
    with opened_page(browser, tmp_path, videos.scenes_of(video, pages.CUTS), [], video) as opened:
        expect(opened.page.locator("#video-note")).to_contain_text("This browser cannot show movie.mp4")
        assert "bassl review makes a copy that it can show" in opened.page.inner_text("#video-note")
        before = ends_shown(opened.page)
        press(opened.page, "c")
        assert opened.page.is_hidden("#cut")
        assert ends_shown(opened.page) == before


def test_a_page_that_is_a_file_says_where_where_the_browser_puts_what_it_saves(view: Page, tmp_path: Path) -> None:
    press(view, "n", "m")
    with view.expect_download():
        view.click("#save")
    place = "scenes.json is in the folder of your browser's downloads. Move it to the folder of the old one"
    expect(view.locator("#save-note")).to_contain_text(place)
    assert "bassl review saves there directly" in view.inner_text("#save-note")
    assert view.locator("#exports, #done").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_accessibility_problems(browser: Browser, place: Path, scheme: str) -> None:
    with reviewed(browser, place, color_scheme=scheme, reduced_motion="reduce") as seen:
        seen.page.click("#exports")
        assert faults(seen.page) == []
        seen.page.keyboard.press("Escape")
        press(seen.page, "n", "m")
        seen.result.write_bytes(seen.result.read_bytes() + b" ")
        seen.page.click("#save")
        expect(seen.page.locator("#save-note")).to_be_visible()
        assert faults(seen.page) == []
        seen.page.click("#replace-file")
        seen.page.click("#done")
        expect(seen.page.locator("#finished")).to_be_visible()
        assert faults(seen.page) == []


@pytest.mark.parametrize("width", [360, 768])
def test_what_fingers_touch_is_40_pixels_wide_and_high(browser: Browser, place: Path, width: int) -> None:
    with reviewed(browser, place, viewport={"width": width, "height": 900}) as seen:
        seen.page.click("#exports")
        assert seen.page.evaluate(TARGETS) == []


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_the_export_menu_and_the_conflict_fit_windows_of_all_sizes(browser: Browser, place: Path, width: int) -> None:
    with reviewed(browser, place, viewport={"width": width, "height": 800}) as seen:
        page = seen.page
        press(page, "n", "m")
        replace(pages.invented(3)).save(seen.result)
        page.click("#save")
        expect(page.locator("#save-note")).to_be_visible()
        page.click("#exports")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.is_visible("#export-menu >> text=Chapters for YouTube")
        for shown in ("#export-menu", "#save-note", "#save span", "#done span"):
            box = page.locator(shown).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["width"] > 20, "a label"
            assert box["x"] + box["width"] <= width


@pytest.mark.slow
def test_an_editor_goes_from_the_video_to_corrected_scenes_in_an_edl_for_resolve_in_two_windows(
    browser: Browser, synthetic_video: tuple[Path, SyntheticVideo], tmp_path: Path
) -> None:
    path, plan = synthetic_video
    shutil.copy(path, tmp_path / "movie.mp4")
    assert bassl_process("predict movie.mp4", tmp_path).code == 0
    shots = read_scene_list(tmp_path / "movie.scenes.json").shots
    true_ends = [a.end_frame for a, b in pairwise(plan.shots) if a.scene != b.scene]
    truth = [shot.index for shot in shots[:-1] if any(abs(shot.end_frame - end) <= 12 for end in true_ends)]
    command = [sys.executable, "-m", "bassl_cli", "review", "movie.mp4"]
    review = subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, text=True, stdout=PIPE, stderr=PIPE)
    assert review.stdout is not None
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = opened_at(context.new_page(), review.stdout.readline().partition("#")[0])
    press(page, "r")
    while "nothing is left" not in page.inner_text("#review-title"):
        first = int(page.locator("#review-shots .caption b").first.inner_text()) - 1
        marks = page.eval_on_selector_all("#review-shots .boundary:enabled", "all => all.map(one => one.ariaPressed)")
        for i, mark in enumerate(marks):
            if (mark == "true") != (first + i in truth):
                press(page, str(i + 1))
        press(page, "Enter")
    press(page, "Escape", "Home", "e")
    page.keyboard.type("Opening")
    press(page, "Enter")
    page.click("#exports")
    page.click("#export-menu [data-format=edl]")
    expect(page.locator("#exported")).to_contain_text("Wrote movie.scenes.edl.")
    press(page, "Escape")
    page.click("#done")
    expect(page.locator("#finished")).to_be_visible()
    context.close()
    _, err = review.communicate(timeout=30)
    assert review.returncode == 0
    lines = err.splitlines()
    assert lines[-2:] == [f"saved movie.scenes.json: {len(truth) + 1} scenes", "wrote movie.scenes.edl"]
    assert ends_saved(tmp_path / "movie.scenes.json") == [*truth, len(shots) - 1]
    edl = (tmp_path / "movie.scenes.edl").read_text()
    assert bassl_process("export movie.mp4 --to edl -o again.edl", tmp_path).code == 0
    assert edl == (tmp_path / "again.edl").read_text(), "the next command reads what was saved"
    assert "Opening" in edl
    assert len(re.findall(r"^\d{3} ", edl, re.MULTILINE)) >= len(truth) + 1
    files = {"movie.mp4", "movie.scenes.json", "movie.scenes.edl", "again.edl"}
    assert {file.name for file in tmp_path.iterdir()} == files, "nothing is saved twice or elsewhere"
