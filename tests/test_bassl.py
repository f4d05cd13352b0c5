"""The public package: every name there, nothing heavy at import, and a clear word where another package hides ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import bassl
import pipelines

HOME = Path(bassl.__file__).parents[1]


def test_every_public_name_is_there_and_documented() -> None:
    assert {"BasslError", "SceneList", "load_model", "predict", "predict_films"} <= set(bassl.__all__)
    for name in bassl.__all__:
        assert getattr(bassl, name).__doc__, name
    assert bassl.__version__ == pipelines.__version__
    assert set(bassl.__all__) <= set(dir(bassl))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'bassl' has no attribute 'predikt'"):
        _ = bassl.predikt  # type: ignore[attr-defined]


def test_another_package_called_pipelines_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text("class SaveItem: ...\n")
    path = os.pathsep.join((str(tmp_path), str(HOME)))
    environment = os.environ | {"PYTHONPATH": path}
    run = subprocess.run(
        [sys.executable, "-c", "import bassl"], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    last = run.stderr.splitlines()[-1]
    assert last.startswith("ImportError: bassl needs its own package 'pipelines' and finds ")
    assert str(tmp_path / "pipelines.py") in last
