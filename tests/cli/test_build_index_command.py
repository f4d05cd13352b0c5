"""``bassl build-index``: stdout, stderr and exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipelines.stores.index import read_index
from tests.command import Bassl, Run, running
from tests.scored_things import put_csv
from tests.small_stores import put_store


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bassl:
    """Runs ``bassl build-index`` with arguments, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return running(monkeypatch, capfd, "build-index")


def complaint(done: Run, *words: str) -> None:
    """Checks that a run ended with one line about wrong use or unusable input."""
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("bassl: ")
    assert done.err.count("\n") == 1
    for word in words:
        assert word in done.err


def table(done: Run) -> list[list[str]]:
    assert done.code == 0, done.err
    return [line.split() for line in done.out.splitlines()]


def test_build_index_finds_the_output_of_extract_keyframes(run: Bassl) -> None:
    """The commands chain without arguments; an existing index is kept; --show only prints."""
    complaint(run(), "data/keyframes", "bassl extract-keyframes")
    put_store("data/keyframes/video.h5", 1800)
    done = run()
    assert table(done) == [
        ["split", "videos", "labeled", "scenes", "shots", "hours"],
        ["none", "1", "0", "0", "1,800", "1.0"],
    ]
    assert done.err.splitlines() == [
        "note: 1 of 1 videos have no labels: video",
        "note: 1 of 1 videos have no split: video",
        "wrote data/index.h5",
    ]
    assert read_index(Path("data/index.h5")).video_ids == ("video",)
    complaint(run(), "data/index.h5", "already exists", "--overwrite")
    shown = run("--show")
    assert shown.out == done.out
    assert shown.err == "".join(done.err.splitlines(keepends=True)[:2])
    code, _, err = run("somewhere", "--show")
    assert (code, "pass it with --output" in err) == (2, True)
    Path("data/keyframes/video.h5").unlink()
    assert "note: 1 of 1 videos have keyframes that no longer exist: video" in run("--show").err
    put_store("data/keyframes/other.h5")
    assert run("--overwrite").code == 0
    assert read_index(Path("data/index.h5")).video_ids == ("other",)


def test_the_matching_of_labels_is_reported(run: Bassl) -> None:
    put_store("stores/video.h5", 5)
    put_csv("labels/video.csv", 0, 2.2, 6.9, 10)
    put_csv("labels/nobody.csv", 0, 3)
    arguments = ("stores", "--labels", "labels", "--tolerance", 0.5, "--overwrite")
    assert run(*arguments).err.splitlines() == [
        "note: video: 1 of 2 scene ends have no shot end within the tolerance (the first at 6.9 s)",
        "note: 1 labeled video is not among the sources: nobody",
        "note: 1 of 1 videos have no split: video",
        "labels: 1 of 2 scene ends matched, 0.20 s away on average",
        "wrote data/index.h5",
    ]
    result = json.loads(run(*arguments, "--json").out)
    assert result["index"] == "data/index.h5"
    assert result["splits"] == [
        {"split": "none", "videos": 1, "labeled": 1, "scenes": 2, "shots": 5, "hours": pytest.approx(10 / 3600)}
    ]
    assert (result["matches"]["video"]["matched"], result["matches"]["video"]["unmatched"]) == (1, [6.9])
    assert result["notes"][1] == "1 labeled video is not among the sources: nobody"
    assert run(*arguments, "--quiet") == (0, "", "")
    report = json.loads(run("--show", "--json").out)
    assert (report["splits"], report["matches"]) == (result["splits"], {})


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("a.h5 --split most", ["'most'"]),
        ("bad.h5", ["bad.h5", "bassl extract-keyframes"]),
        ("--show", ["data/index.h5: no such file", "bassl build-index"]),
        ("--show -o bad.h5", ["bad.h5", "bassl build-index"]),
    ],
)
def test_wrong_input_gives_a_one_line_error(run: Bassl, command: str, words: list[str]) -> None:
    Path("bad.h5").write_bytes(put_store("a.h5").read_bytes()[:2000])
    complaint(run(*command.split()), *words)
    assert not Path("data/index.h5").exists()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("encode", "INDEX"),
        ("pretrain", "--index"),
        ("extract-sound .", "--index"),
        ("build-index --show", "--output"),
    ],
)
def test_the_message_on_a_missing_index_names_what_the_command_takes(
    bassl: Bassl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.mp4").touch()
    run = bassl(*command.split())
    assert run.code == 2
    assert re.search(
        rf"data/index.h5: no such file; run `?bassl build-index`?, or name (one|an index) with {name}\n", run.err
    )
    assert name in bassl(command.split()[0], "--help").out


@pytest.mark.parametrize(
    "command",
    ["extract-keyframes .", "extract-sound .", "build-index a.json", "pretrain", "finetune", "reproduce table1"],
)
def test_stdout_is_refused_where_nothing_can_go_there(
    bassl: Bassl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.mp4").touch()
    run = bassl(*command.split(), "-o", "-")
    assert (run.code, run.err) == (
        2,
        "bassl: -: this cannot be written to stdout; name a file or folder with --output\n",
    )
    assert not Path("-").exists()
