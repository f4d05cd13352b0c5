"""`bassl review`: the page that it serves, and what the terminal says."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from pipelines.datasets.scenes_json import read_scene_list
from tests import videos
from tests.command import Bassl
from tests.running import ENVIRONMENT, posix
from tests.videos import CUTS, FRAMES, scenes_of

NO_DISPLAY = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": "", "SSH_CONNECTION": ""}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a video and its result."""
    monkeypatch.chdir(tmp_path)
    videos.write_video(Path("my movie.mp4"), videos.images(FRAMES, CUTS))
    scenes_of(Path("my movie.mp4")).save("my movie.scenes.json")
    return tmp_path


class Page:
    """The page at an address, and what it asks its server to do."""

    def __init__(self, address: str) -> None:
        self.address, self.text = address, urlopen(address).read().decode()
        self.data = json.loads(re.findall(r'id="data">(.*?)</script>', self.text)[0])

    def ask(self, method: str, name: str, body: bytes) -> None:
        headers = {"Origin": self.address.rpartition("/")[0].rpartition("/")[0], "If-Match": self.data["version"]}
        answer = json.loads(urlopen(Request(self.address + name, body, headers, method=method)).read() or b"{}")
        self.data |= {"version": answer.get("version", self.data["version"])}

    def save(self) -> None:
        self.data["file"]["scenes"][0]["name"] = "Saved"
        self.ask("PUT", "result", json.dumps(self.data["file"]).encode())


class Review:
    """The command without a browser, until it waits. ``printed``: what it has printed on stderr."""

    def __init__(self, place: Path, *arguments: str, **variables: str) -> None:
        command, environment = [sys.executable, "-m", "bassl_cli", "review", *arguments], ENVIRONMENT | NO_DISPLAY
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=place, env=environment | variables, **pipes)
        self.address = self.process.stdout.readline().strip()

    def page(self) -> Page:
        return Page(self.address.partition("#")[0])

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err


@posix
def test_the_page_saves_and_exports_in_place_and_the_terminal_says_so(place: Path) -> None:
    review = Review(place)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]+/#review", review.address)
    page = review.page()
    assert page.data["save_as"] == "my movie.scenes.json"
    page.save()
    for name in ("edl", "fcpxml"):
        page.ask("POST", "export", name.encode())
    page.ask("POST", "done", b"1")
    code, err = review.end()
    assert (code, err.splitlines()) == (0, [
        "reading my movie.scenes.json",
        "no browser found; open this address yourself",
        "Done in the page, or Ctrl-C here, ends the review",
        "saved my movie.scenes.json: 4 scenes",
        "wrote my movie.scenes.edl",
        "wrote my movie.scenes.fcpxml",
    ])  # fmt: skip
    assert read_scene_list(place / "my movie.scenes.json").scenes[0].name == "Saved"
    assert "Saved" in (place / "my movie.scenes.edl").read_text()
    assert not list(place.glob("*.html"))


@posix
def test_a_page_beside_the_result_is_not_shown_and_is_named_once_it_is_outdated(place: Path) -> None:
    beside = place / "my movie.scenes.html"
    beside.write_text("<script>harm()</script>")
    review = Review(place)
    page = review.page()
    assert "harm()" not in page.text
    page.save()
    page.ask("POST", "done", b"1")
    assert review.end()[1].splitlines()[-1] == (
        "note: my movie.scenes.html still shows the scenes before; renew it with: bassl report 'my movie.scenes.json'"
    )
    assert beside.read_text() == "<script>harm()</script>"


@posix
def test_a_person_goes_back_and_forth_past_one_that_cannot_be_read_and_reads_how_many_there_are(place: Path) -> None:
    Path("a.scenes.json").write_bytes(Path("my movie.scenes.json").read_bytes())
    Path("b.scenes.json").write_text("{}")
    review, shown = Review(place, "."), []
    for step in (b"1", b"-1", b"1", b"1"):
        page = review.page()
        shown.append((page.data["save_as"], *re.findall(r"(\d of \d) ·", page.text), page.data["next"]))
        page.save()
        page.ask("POST", "done", step)
    first, last = ("a.scenes.json", "1 of 3", "b.scenes.json"), ("my movie.scenes.json", "3 of 3", "")
    assert shown == [first, last, first, last]
    code, err = review.end()
    assert (code, "bassl: b.scenes.json: is not a scenes.json: its 'schema' is not 'bassl.scenes'\n" in err) == (
        1,
        True,
    )
    assert [line for line in err.splitlines() if line.startswith("saved")] == [
        f"saved {name}: 4 scenes" for name, *_ in (first, last) * 2
    ]


@posix
def test_the_scenes_of_a_video_without_a_result_are_found_first_and_quiet_prints_only_the_address(place: Path) -> None:
    Path("my movie.mp4").rename("new.mp4")
    for quiet in ((), ("-q",)):
        review = Review(place, *quiet, "new.mp4")
        page = review.page()
        assert page.data["save_as"] == "new.scenes.json"
        page.save()
        page.ask("POST", "done", b"1")
        code, err = review.end()
        assert code == 0
        Path("new.scenes.json").unlink()
        assert ("does not exist: finding its scenes first" in err, "saved new.scenes.json: " in err) == (not quiet,) * 2
    assert err == ""


@posix
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_review_and_the_terminal_says_what_was_saved(place: Path, number: int, code: int) -> None:
    over_ssh = {"SSH_CONNECTION": "192.0.2.7 50000 192.0.2.9 2222"} if number == signal.SIGTERM else {}
    review = Review(place, **over_ssh)
    port = review.address.split(":")[2].split("/")[0]
    review.page()  # it waits
    review.process.send_signal(number)
    ended, err = review.end()
    forward = rf"ssh -N -L {port}:127\.0\.0\.1:{port} -p 2222 \S+@192\.0\.2\.9"
    assert re.search(forward if over_ssh else "no browser found; open this address yourself", err)
    assert (ended, "my movie.scenes.json is unchanged" in err, "Traceback" in err) == (code, True, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gone.mp4"], "gone.mp4: no such file"),
        (["-"], "-: scenes from stdin cannot be saved in place; name their scenes.json"),
        (
            ["my movie.scenes.json", "z.json", "--video", "my movie.mp4"],
            "my movie.mp4: is one video, but there are 2 results; leave --video out",
        ),
    ],
)
def test_what_cannot_be_reviewed_is_one_line(bassl: Bassl, place: Path, arguments: list[str], words: str) -> None:
    run = bassl("review", *arguments)
    assert (run.code, run.out) == (2, "")
    assert run.err.endswith(f"bassl: {words}\n")
