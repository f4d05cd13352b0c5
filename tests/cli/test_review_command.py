"""`bassl review`: the page in the browser, in review mode."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests import videos
from tests.command import Bassl, Run, bassl_process
from tests.videos import CUTS, FRAMES, scenes_of

NO_DISPLAY = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a video and its result."""
    monkeypatch.chdir(tmp_path)
    videos.write_video(Path("my movie.mp4"), videos.images(FRAMES, CUTS))
    scenes_of(Path("my movie.mp4")).save("my movie.scenes.json")
    return tmp_path


def review_in_browser(place: Path, options: str = "") -> tuple[Run, str]:
    """Run the command with a browser that notes the address that it is started with."""
    browser = place / "browser.py"
    browser.write_text(f"import sys\nopen({str(place / 'address')!r}, 'w').write(sys.argv[1])\n")
    command = shlex.join([sys.executable, str(browser)]) + " %s"
    run = bassl_process(f"review {options}", place, {**NO_DISPLAY, "BROWSER": command})
    return run, (place / "address").read_text()


def test_the_browser_opens_the_page_in_review_mode_and_a_page_that_is_there_is_kept(place: Path) -> None:
    page = place / "my movie.scenes.html"
    run, address = review_in_browser(place)
    assert run.code == 0, run.err
    assert run.out == f"{page.as_uri()}#review\n"
    opening = "my movie.scenes.html; opening it in the browser; if the review does not start there, press R"
    assert run.err.splitlines()[-1] == f"wrote {opening}"
    assert address == page.as_uri() + "#review"
    assert "my%20movie.scenes.html#review" in address
    page.write_text(page.read_text() + "<!-- the same page -->")
    run, _ = review_in_browser(place)
    assert (run.code, run.err) == (0, f"{opening}\n")
    assert page.read_text().endswith("<!-- the same page -->")
    scenes_of(Path("my movie.mp4"), CUTS[:2]).save("my movie.scenes.json")
    run, _ = review_in_browser(place, "-q")
    assert run == (0, "", "")
    assert not page.read_text().endswith("<!-- the same page -->"), "other scenes, another page"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="has a display in any case")
def test_without_a_display_the_address_is_printed(place: Path) -> None:
    run = bassl_process("review -o page.html", place, NO_DISPLAY)
    assert (run.code, run.out) == (0, f"{(place / 'page.html').as_uri()}#review\n")
    assert run.err.splitlines()[-1] == "wrote page.html; no browser found; open this address yourself"


def test_one_video_is_reviewed_at_a_time(bassl: Bassl, place: Path) -> None:
    Path("other.scenes.json").write_bytes(Path("my movie.scenes.json").read_bytes())
    run = bassl("review", ".")
    assert (run.code, run.out, "one video is reviewed at a time" in run.err) == (2, "", True)
    assert not list(place.glob("*.html"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gone.mp4"], "gone.mp4: no such file"),
        (["no result.mp4"], "no_result.scenes.json: no such file; make it with: bassl predict 'no result.mp4'"),
        (["my movie.scenes.json", "-o", "page.txt"], "page.txt: a page's name ends in .html"),
    ],
)
def test_what_cannot_be_reviewed_is_one_line(bassl: Bassl, place: Path, arguments: list[str], words: str) -> None:
    Path("no result.mp4").write_bytes(Path("my movie.mp4").read_bytes())
    run = bassl("review", *arguments)
    assert (run.code, run.out) == (2, "")
    assert run.err.endswith(f"bassl: {words}\n")
    assert not list(place.glob("*.html"))
