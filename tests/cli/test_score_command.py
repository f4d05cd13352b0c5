"""`bassl score`: stdout, stderr, exit codes, and no partial files."""

from pathlib import Path
from typing import Any

import pytest

from tests.command import Bassl, Run
from tests.scored_things import WIDTH, plain, put_csv, put_index, put_run, put_scenes


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scored")
    put_index(folder)
    put_run(folder / "run", seeds=(3, 5))
    return folder


@pytest.fixture
def on_index(home: Path) -> list[object]:
    return ["--index", home / "index.h5", "--features", home / "features" / f"npz-{WIDTH}d", "--resamples", 20]


def assert_refused(run: Run, *words: str) -> None:
    """One line on stderr, nothing on stdout."""
    assert (run.code, run.out) == (2, "")
    (line,) = run.err.splitlines()
    assert line.startswith("bassl: ")
    assert all(word in line for word in words)


def rows(run: Run) -> dict[str, list[str]]:
    return {line[:20].strip(): line[20:].split() for line in run.out.splitlines()[1:]}


def test_score_prints_a_table_for_a_run(bassl: Bassl, home: Path, on_index: list[object]) -> None:
    run = bassl("score", home / "run", *on_index, "--frame-rate", 25)
    assert run.code == 0
    assert "scoring 3 videos\n" in run.err  # however many seeds the run has
    header = "metric pooled 95 % interval mean of videos 95 % interval mean of 2 seeds"
    assert " ".join(run.out.splitlines()[0].split()) == header
    names = [line.split("  ")[0].strip() for line in run.out.splitlines()[1:]]
    assert names == [
        *("AP", "AUC-ROC", "F1", "precision", "recall", "mIoU", "Recall@3s", "Sum", "coverage", "overflow"),
        *("F of the two", "boundary precision", "boundary recall", "boundary F1"),
    ]
    assert "±" in run.out
    assert run.err.splitlines()[-1].startswith("3 videos, 90 shots, ")
    assert bassl("score", "default", *on_index, "--quiet", "--table", "made/t.md") == (0, "", "")
    assert Path("made/t.md").read_text().startswith("| metric | pooled | 95 % interval |")


def test_with_json_stdout_has_only_json(bassl: Bassl, home: Path, on_index: list[object]) -> None:
    run = bassl("score", home / "run", *on_index, "--json", "--representation")
    content: Any = plain(run.out)
    assert (run.code, content["schema"], content["version"]) == (0, "bassl.score", 1)
    assert len(content["videos"]) == 3
    assert set(content["seeds"]["ap"]["values"]) == {"3", "5"}
    assert content["metrics"]["boundary_f1"]["pooled"] is None
    assert set(content["representation"]["nmi"]) == {"8", "16", "32"}
    put_scenes(Path("a.json"))
    put_csv(Path("t.csv"), 0, 20.5, 25, 50)
    content = plain(bassl("score", "a.json", "t.csv", "--json").out)
    assert content["metrics"]["miou"]["pooled"] is None
    assert content["matching"]["t"]["shots"] == "shots of the prediction"
    assert content["matching"]["t"]["truth"]["unmatched"] == [25.0]


def test_a_scene_list_is_scored_against_the_truth(bassl: Bassl) -> None:
    put_scenes(Path("a.json"))
    put_csv(Path("truth.csv"), 0, 20.5, 25, 90)
    run = bassl("score", "a.json", "truth.csv")
    assert run.code == 0
    assert rows(run)["F1"] == ["50.0", "50.0"]
    assert "on shots of the prediction: 1 of 2 true scene ends matched, 0.50 s away on average; the others" in run.err
    assert "are they of the same video?" in run.err
    assert run.err.splitlines()[-1] == "1 video, 6 shots, 2 true scene ends"
    assert rows(bassl("score", "a.json", "truth.csv", "--threshold", 0.8))["precision"] == ["100.0", "100.0"]
    assert rows(bassl("score", "a.json", "truth.csv", "--within", 0.1))["boundary F1"] == ["0.0", "0.0"]
    put_scenes(Path("guess/b.json"))
    put_csv(Path("truth/b.csv"), 0, 20, 40, 50)
    Path("guess/broken.json").write_text("{")
    run = bassl("score", "guess", "truth")
    (complaint,) = (line for line in run.err.splitlines() if line.startswith("bassl: "))
    assert (run.code, rows(run)["F1"], complaint[:24]) == (1, ["100.0", "100.0"], "bassl: guess/broken.json")


def test_wrong_options_give_a_one_line_error(bassl: Bassl) -> None:
    put_scenes(Path("a.json"))
    put_csv(Path("t.csv"), 0, 20, 50)
    assert_refused(bassl("score"), "nothing to score", "'default'")
    assert_refused(bassl("score", "a.json", "t.csv", "--table", "t.doc"), "t.doc", ".md, .tex, .csv or .json")
    assert_refused(bassl("score", "default", "--index", "no.h5"), "no.h5", "bassl build-index")
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["a.json", "t.csv"]
