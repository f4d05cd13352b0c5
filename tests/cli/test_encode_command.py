"""``bassl encode`` as a process: the command between an index and what reads its features."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pipelines.stores.features import read_features
from tests.stages.test_encode import put_index

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def bassl(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "bassl_cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=600)


def test_an_index_is_encoded_with_no_options_into_the_store_that_is_named(tmp_path: Path) -> None:
    put_index(tmp_path / "data", {"a": 3, "b": 2})
    ended = bassl(tmp_path, "encode", "--gpus", "0")
    assert ended.returncode == 0, ended.stderr
    encoder, features = read_features(tmp_path / ended.stdout.strip())
    assert (tmp_path / ended.stdout.strip()).parent == tmp_path / "data" / "features"
    assert encoder.startswith("efficientnet_lite0-")
    assert {name: values.shape for name, values in features.items()} == {"a": (3, 1280), "b": (2, 1280)}


def test_wrong_use_is_one_line(tmp_path: Path) -> None:
    for arguments, words in (
        (["nowhere.h5", "--gpus", "0"], "nowhere.h5"),
        (["--gpus", "1600"], "bassl encode --gpus 1600"),
        (["--preparation", "crop"], "preparation must be one of centre, squeeze"),
    ):
        ended = bassl(tmp_path, "encode", *arguments)
        assert ended.returncode == 2
        assert words in ended.stderr
        assert "Traceback" not in ended.stderr
