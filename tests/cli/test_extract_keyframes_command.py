"""`bassl extract-keyframes`: stdout, stderr, exit codes, and interrupts."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import videos
from tests.command import Bassl, running
from tests.running import ENVIRONMENT, alive, children_of, linux, soon


@pytest.fixture(scope="module")
def movies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two videos and a file that is not a video; not to be changed."""
    folder = tmp_path_factory.mktemp("movies") / "movies"
    (folder / "more").mkdir(parents=True)
    videos.write_video(folder / "one.mp4", videos.images(70, (20, 45)), rate=12)
    videos.write_video(folder / "more" / "My video.mkv", videos.images(60, (30,)), rate=12)
    (folder / "bad.mp4").write_text("no video\n" * 100)
    return folder


@pytest.fixture
def bassl(movies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bassl:
    """Run the command in this process, in a folder with the videos in ``movies``."""
    shutil.copytree(movies, tmp_path / "movies")
    monkeypatch.chdir(tmp_path)
    return running(monkeypatch, capfd, "extract-keyframes")


def test_a_folder_of_videos_gives_stores_a_table_and_a_line_for_a_bad_one(bassl: Bassl) -> None:
    run = bassl("movies")
    assert run.code == 1
    assert [line.split() for line in run.out.splitlines()] == [
        ["video", "status", "length", "frames", "shots"],
        ["bad", "failed"],
        ["My_video", "done", "5.0", "s", "60", "2"],
        ["one", "done", "5.8", "s", "70", "3"],
    ]
    *statuses, error, summary = run.err.splitlines()
    assert sorted(statuses) == ["My_video: done", "bad: failed", "one: done"]
    assert error.startswith("bassl: movies/bad.mp4: not a video that can be read (")
    assert summary == "2 done, 0 kept, 1 failed; stores in data/keyframes"
    assert sorted(path.name for path in Path("data/keyframes").iterdir()) == ["My_video.h5", "one.h5"]
    again = bassl("movies", "--quiet", "--json")
    assert (again.code, again.err) == (1, f"{error}\n")
    assert [(one["video_id"], one["status"], one["frames"]) for one in json.loads(again.out)] == [
        ("bad", "failed", 0), ("My_video", "kept", 60), ("one", "kept", 70),
    ]  # fmt: skip
    assert bassl("movies/one.mp4").err.splitlines()[-1] == "0 done, 1 kept, 0 failed; stores in data/keyframes"


def has_open_files(pid: int, folder: Path) -> bool:
    """Return whether a process has open files in a folder."""
    return any(
        path.readlink().is_relative_to(folder) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()
    )


@linux
def test_an_interrupt_leaves_no_processes_and_no_partial_files(tmp_path: Path) -> None:
    long = videos.write_video(tmp_path / "a.mp4", videos.images(5000, (30, 60), 48, 32, numbered=False))
    shutil.copy(long, tmp_path / "b.mp4")
    run = subprocess.Popen(
        [sys.executable, "-m", "bassl_cli", "extract-keyframes", ".", "-o", "out", "-j", "2"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal does it, the interrupt goes to the whole group
    )
    assert soon(lambda: len(children_of(run.pid)) == 2)
    children = children_of(run.pid)
    # Keyframes of a video that is being read are in a file without a name.
    assert soon(lambda: any(has_open_files(child, tmp_path / "out") for child in children))
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err.splitlines()[-1], "Traceback" in err) == (130, "", "bassl: interrupted", False)
    assert all(soon(lambda child=child: not alive(child)) for child in children)
    assert not list((tmp_path / "out").glob(".*"))
