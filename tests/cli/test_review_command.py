"""`bassl review`: the page that it serves, and what the terminal says."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO
from urllib.request import Request, urlopen

import pytest

from pipelines.datasets.scenes_json import read_scene_list
from tests import videos
from tests.command import Bassl, Run, bassl_process
from tests.running import ENVIRONMENT, posix
from tests.videos import CUTS, FRAMES, scenes_of

NO_DISPLAY = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": "", "SSH_CONNECTION": ""}

BROWSER = """
import json, re, sys
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

def ask(method, name, body=b""):
    headers = {"Origin": "http://" + urlsplit(address).netloc, "If-Match": data["version"]}
    try:
        return json.loads(urlopen(Request(address + name, body, headers, method=method)).read())
    except HTTPError as error:
        return json.loads(error.read())

response = urlopen(sys.argv[1])
while True:
    address, page = response.url.partition("#")[0], response.read().decode()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    print(sys.argv[1], address, data["save_as"])
    for step in sys.argv[2:]:
        if step == "save":
            data["file"]["scenes"][0]["name"] = "Saved"
            answer = ask("PUT", "result", json.dumps(data["file"]).encode())
            data["version"] = answer.get("version")
        else:
            answer = ask("POST", "export", step.encode())
        print(answer)
    ask("POST", "done", b"1")
    if not data["next"]:
        break
    response = urlopen(address)
"""
"""A browser that takes these steps on each page, and is done; prints the addresses that it was given and came to."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a video and its result."""
    monkeypatch.chdir(tmp_path)
    videos.write_video(Path("my movie.mp4"), videos.images(FRAMES, CUTS))
    scenes_of(Path("my movie.mp4")).save("my movie.scenes.json")
    return tmp_path


def review_in_browser(place: Path, options: str = "", *steps: str) -> tuple[Run, list[str]]:
    """Run the command with a browser that takes these steps; returns also what it printed."""
    (place / "browser.py").write_text(BROWSER)
    words = [sys.executable, str(place / "browser.py"), "%s", *steps]
    script = f"{shlex.join(words)} > {shlex.quote(str(place / 'printed'))} 2>&1".replace("'%s'", '"$0"')
    command = shlex.join(["sh", "-c", script, "%s"])
    run = bassl_process(f"review {options}", place, {**NO_DISPLAY, "BROWSER": command})
    return run, (place / "printed").read_text().splitlines()


@posix
def test_the_browser_gets_the_page_saves_and_exports_in_place_and_the_terminal_says_so(place: Path) -> None:
    run, printed = review_in_browser(place, "", "save", "edl", "fcpxml", "edl")
    assert run.code == 0, run.err
    entry, address, name = printed[0].split(" ", 2)
    assert (run.out, name) == (f"{address}#review\n", "my movie.scenes.json")
    assert address.startswith("http://127.0.0.1:")
    assert address.split("/")[3] not in entry, "other users see what a browser is started with"
    assert read_scene_list(place / "my movie.scenes.json").scenes[0].name == "Saved"
    assert "Saved" in (place / "my movie.scenes.edl").read_text()
    assert sorted(run.complaints) == sorted([
        "opening it in the browser",
        "Done in the page, or Ctrl-C here, ends the review",
        "saved my movie.scenes.json: 4 scenes",
        "wrote my movie.scenes.edl",
        "wrote my movie.scenes.fcpxml",
        "wrote my movie.scenes.edl",
    ])  # fmt: skip
    assert not list(place.glob("*.html"))


@posix
def test_a_page_beside_the_result_is_not_opened_and_is_named_once_it_is_outdated(place: Path) -> None:
    page = place / "my movie.scenes.html"
    page.write_text("<script>harm()</script>")
    run, printed = review_in_browser(place)
    assert (run.code, len(printed)) == (0, 1)
    assert page.name not in printed[0] + run.out
    assert run.complaints[-1] == "my movie.scenes.json is unchanged"
    run, _ = review_in_browser(place, "", "save")
    assert run.complaints[-1] == (
        "note: my movie.scenes.html still shows the scenes before; renew it with: bassl report 'my movie.scenes.json'"
    )
    assert page.read_text() == "<script>harm()</script>"


@posix
def test_several_results_follow_one_after_the_other_and_one_that_cannot_be_read_is_passed_over(place: Path) -> None:
    for name in ("a.scenes.json", "z.scenes.json"):
        Path(name).write_bytes(Path("my movie.scenes.json").read_bytes())
    Path("0.scenes.json").write_text("{}")
    run, printed = review_in_browser(place, ".", "save")
    assert run.code == 1
    assert [line.split(" ", 2)[2] for line in printed if line.startswith("http")] == [
        "a.scenes.json", "my movie.scenes.json", "z.scenes.json",
    ]  # fmt: skip
    assert len({line.split(" ")[1] for line in printed if line.startswith("http")}) == 1, "one address"
    assert [line for line in run.err.splitlines() if line.startswith("bassl: ")] == [
        "bassl: 0.scenes.json: is not a scenes.json: its 'schema' is not 'bassl.scenes'"
    ]
    assert [line for line in run.err.splitlines() if line.startswith("saved")] == [
        f"saved {name}: 4 scenes" for name in ("a.scenes.json", "my movie.scenes.json", "z.scenes.json")
    ]


@posix
def test_a_person_goes_back_and_forth_past_one_that_cannot_be_read_and_reads_how_many_there_are(place: Path) -> None:
    Path("a.scenes.json").write_bytes(Path("my movie.scenes.json").read_bytes())
    Path("b.scenes.json").write_text("{}")
    process, _ = started(place, ".")
    assert process.stdout is not None
    address = process.stdout.readline().partition("#")[0]
    shown = []
    for step in (b"1", b"-1", b"1", b"1"):
        page = urlopen(address).read().decode()
        data = json.loads(re.findall(r'id="data">(.*?)</script>', page)[0])
        shown.append((data["save_as"], *re.findall(r"(\d of \d) ·", page), data["next"]))
        headers = {"Origin": address.rpartition("/")[0].rpartition("/")[0], "If-Match": data["version"]}
        urlopen(Request(address + "done", step, headers, method="POST"))
    first, last = ("a.scenes.json", "1 of 3", "b.scenes.json"), ("my movie.scenes.json", "3 of 3", "")
    assert shown[:3] == [first, last, first]
    assert shown[3] == last
    assert process.wait(30) == 1


@posix
def test_the_scenes_of_a_video_without_a_result_are_found_first(place: Path) -> None:
    Path("my movie.mp4").rename("new.mp4")
    run, printed = review_in_browser(place, "new.mp4", "save")
    assert (run.code, printed[0].split(" ")[2]) == (0, "new.scenes.json"), run.err
    assert run.complaints[0] == "new.scenes.json does not exist: finding its scenes first"
    assert "saved new.scenes.json: " in run.err
    Path("new.scenes.json").unlink()
    assert review_in_browser(place, "-q new.mp4", "save")[0] == (0, "", "")


def started(place: Path, *arguments: str, **variables: str) -> tuple[subprocess.Popen[str], str]:
    """Start the command without a browser; returns also what it printed on stderr until it waits."""
    command = [sys.executable, "-m", "bassl_cli", "review", *arguments]
    process = subprocess.Popen(
        command, cwd=place, env={**ENVIRONMENT, **NO_DISPLAY, **variables}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    stderr: IO[str] | None = process.stderr
    assert stderr is not None
    printed = ""
    while "ends the review" not in printed and (line := stderr.readline()):
        printed += line
    return process, printed


@posix
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_review_and_the_terminal_says_what_was_saved(place: Path, number: int, code: int) -> None:
    over_ssh = {"SSH_CONNECTION": "192.0.2.7 50000 192.0.2.9 2222"} if number == signal.SIGTERM else {}
    process, printed = started(place, **over_ssh)
    process.send_signal(number)
    address, err = process.communicate(timeout=30)
    assert address.startswith("http://127.0.0.1:")
    port = address.split(":")[2].split("/")[0]
    forward = rf"ssh -N -L {port}:127\.0\.0\.1:{port} -p 2222 \S+@192\.0\.2\.9"
    assert re.search(forward if over_ssh else "no browser found; open this address yourself", printed)
    assert (process.returncode, "my movie.scenes.json is unchanged" in err, "Traceback" in err) == (code, True, False)


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
