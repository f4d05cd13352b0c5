"""``bassl encode``: the command between an index and what reads its features."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.stages.build_index import build_index
from tests.command import Bassl
from tests.running import ENVIRONMENT
from tests.small_stores import features_in, put_indexed_stores, put_store


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


def test_wrong_options_give_a_one_line_error(bassl: Bassl) -> None:
    for arguments, words in (
        (["nowhere.h5", "--gpus", "0"], "nowhere.h5"),
        (["--gpus", "1600"], "bassl encode --gpus 1600"),
        (["--gpus", "2", "--dask", "tcp://127.0.0.1:9"], "leave --gpus and --processes out"),
        (["--workers", "0"], "workers must be at least 1, not 0"),
        (["--preparation", "crop"], "preparation must be one of center, squeeze"),
    ):
        run = bassl("encode", *arguments)
        assert (run.code, run.err.count("\n"), words in run.err) == (2, 1, True), run.err
