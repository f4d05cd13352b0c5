"""``bassl build-index`` and ``bassl encode``: stdout, stderr and exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.stages.build_index import build_index
from pipelines.stores.index import read_index
from tests.command import Bassl, assert_refused
from tests.running import ENVIRONMENT
from tests.scored_things import put_csv
from tests.small_stores import features_in, put_indexed_stores, put_store


def test_build_index_finds_the_output_of_extract_keyframes(bassl: Bassl) -> None:
    """The commands chain without arguments; an existing index is kept; --show only prints."""
    assert_refused(bassl("build-index"), "data/keyframes", "bassl extract-keyframes")
    put_store("data/keyframes/video.h5", 1800)
    done = bassl("build-index")
    assert [line.split() for line in done.out.splitlines()] == [
        ["split", "videos", "labeled", "scenes", "shots", "hours"],
        ["none", "1", "0", "0", "1,800", "1.0"],
    ]
    assert done.err.splitlines() == [
        "note: 1 of 1 videos have no labels: video",
        "note: 1 of 1 videos have no split: video",
        "wrote data/index.h5",
    ]
    assert read_index(Path("data/index.h5")).video_ids == ("video",)
    assert_refused(bassl("build-index"), "data/index.h5", "already exists", "--overwrite")
    shown = bassl("build-index", "--show")
    assert shown.out == done.out
    assert shown.err == "".join(done.err.splitlines(keepends=True)[:2])
    code, _, err = bassl("build-index", "somewhere", "--show")
    assert (code, "pass it with --output" in err) == (2, True)
    Path("data/keyframes/video.h5").unlink()
    assert "note: 1 of 1 videos have keyframes that no longer exist: video" in bassl("build-index", "--show").err
    put_store("data/keyframes/other.h5")
    assert bassl("build-index", "--overwrite").code == 0
    assert read_index(Path("data/index.h5")).video_ids == ("other",)


def test_the_matching_of_labels_is_reported(bassl: Bassl) -> None:
    put_store("stores/video.h5", 5)
    put_csv("labels/video.csv", 0, 2.2, 6.9, 10)
    put_csv("labels/nobody.csv", 0, 3)
    arguments = ("stores", "--labels", "labels", "--tolerance", 0.5, "--overwrite")
    assert bassl("build-index", *arguments).err.splitlines() == [
        "note: video: 1 of 2 scene ends have no shot end within the tolerance (the first at 6.9 s)",
        "note: 1 labeled video is not among the sources: nobody",
        "note: 1 of 1 videos have no split: video",
        "labels: 1 of 2 scene ends matched, 0.20 s away on average",
        "wrote data/index.h5",
    ]
    result = json.loads(bassl("build-index", *arguments, "--json").out)
    assert result["index"] == "data/index.h5"
    assert result["splits"] == [
        {"split": "none", "videos": 1, "labeled": 1, "scenes": 2, "shots": 5, "hours": pytest.approx(10 / 3600)}
    ]
    assert (result["matches"]["video"]["matched"], result["matches"]["video"]["unmatched"]) == (1, [6.9])
    assert result["notes"][1] == "1 labeled video is not among the sources: nobody"
    assert bassl("build-index", *arguments, "--quiet") == (0, "", "")
    report = json.loads(bassl("build-index", "--show", "--json").out)
    assert (report["splits"], report["matches"]) == (result["splits"], {})


def test_encode_without_options_writes_and_names_the_store_and_a_damaged_video_at_the_end(bassl: Bassl) -> None:
    put_indexed_stores(Path("data"), {"a": 3, "b": 2})
    sound = put_store(Path("data/stores/a.h5"), 3, seed=0).read_bytes()
    put_store(Path("data/stores/a.h5"), 3, seed=7)
    code, out, err = bassl("encode", "--gpus", "0")
    assert (code, out) == (1, "")
    assert "a.h5: shot 0 was made again after the index" in err
    assert "1 of 2 videos were not encoded; repair them and run again" in err
    Path("data/stores/a.h5").write_bytes(sound)
    code, out, _ = bassl("encode", "--gpus", "0")
    assert code == 0
    store = Path(out.strip())
    assert store.parent == Path("data/features")
    assert store.name.startswith("efficientnet_lite0-")
    assert {name: values.shape for name, values in features_in(store).items()} == {"a": (3, 1280), "b": (2, 1280)}


@pytest.mark.slow
def test_two_processes_make_the_same_store_and_name_a_damaged_video_once(bassl: Bassl) -> None:
    one = Path(bassl("encode", put_indexed_stores(Path("data"), {"b": 7, "c": 2}), "--gpus", "0").out.strip())
    put_store(Path("data/stores/a.h5"), 3, seed=5)
    build_index([Path("data/stores")], output=Path("data/index.h5"), overwrite=True)
    put_store(Path("data/stores/a.h5"), 3, seed=6)
    ended = subprocess.run(
        [sys.executable, "-m", "bassl_cli", "encode", "--gpus", "0", "--processes", "2", "--output", "two"],
        env=ENVIRONMENT | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 1, ended.stderr
    assert [line.count("a.h5: shot 0") for line in ended.stderr.splitlines() if line.startswith("bassl:")] == [1, 0]
    (two,) = Path("two").iterdir()
    assert {path.name: path.read_bytes() for path in two.iterdir()} == {
        path.name: path.read_bytes() for path in one.iterdir()
    }


NO_STDOUT = "-: this cannot be written to stdout; name a file or folder with --output"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("build-index a.h5 --split most", ["'most'"]),
        ("build-index bad.h5", ["bad.h5", "bassl extract-keyframes"]),
        ("build-index --show -o bad.h5", ["bad.h5", "bassl build-index"]),
        (
            "build-index --show",
            ["data/index.h5: no such file; run `bassl build-index`, or name an index with --output"],
        ),
        ("encode", ["data/index.h5: no such file; run `bassl build-index`, or name one with INDEX"]),
        ("pretrain", ["data/index.h5: no such file; run `bassl build-index`, or name one with --index"]),
        ("extract-sound .", ["data/index.h5: no such file", "or name one with --index"]),
        ("encode nowhere.h5 --gpus 0", ["nowhere.h5"]),
        ("encode --gpus 1600", ["bassl encode --gpus 1600"]),
        ("encode --gpus 2 --dask tcp://127.0.0.1:9", ["leave --gpus and --processes out"]),
        ("encode --workers 0", ["workers must be at least 1, not 0"]),
        ("extract-keyframes . -o -", [NO_STDOUT]),
        ("build-index a.json -o -", [NO_STDOUT]),
        ("pretrain -o -", [NO_STDOUT]),
        ("reproduce table1 -o -", [NO_STDOUT]),
    ],
)
def test_wrong_input_gives_a_one_line_error_and_writes_nothing(bassl: Bassl, command: str, words: list[str]) -> None:
    Path("bad.h5").write_bytes(put_store("a.h5").read_bytes()[:2000])
    Path("a.mp4").touch()
    assert_refused(bassl(*command.split()), *words)
    files = {path.name for path in Path().rglob("*") if path.is_file()}
    assert files == {"a.h5", "bad.h5", "a.mp4"}
