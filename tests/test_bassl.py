"""The public package: all names exist, import is light, and a conflicting package is reported."""

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import bassl
import pipelines
from pipelines.evaluation.bootstrap import measure
from pipelines.models.bassl import load_bassl_model
from pipelines.stores.index import read_index
from pipelines.video.shots import KeyframedShot
from tests.evaluation.scored_videos import videos
from tests.running import HOME
from tests.scored_things import put_index, put_pretrained, scene_list


def test_the_package_has_its_public_names_which_are_documented_and_nothing_else() -> None:
    for name in bassl.__all__:
        thing = getattr(bassl, name)
        assert thing.__doc__ or not isinstance(thing, type | FunctionType), name
    assert bassl.__version__ == pipelines.__version__
    assert dir(bassl) == sorted([*bassl.__all__, "__version__"])
    with pytest.raises(AttributeError, match="'bassl' has no attribute 'predikt'"):
        _ = bassl.predikt  # type: ignore[attr-defined]


@pytest.mark.slow
def test_mypy_refuses_options_that_do_not_exist_or_have_another_type(tmp_path: Path) -> None:
    program = """import bassl
bassl.predict("a.mp4", threshold=1, min_scene="0:10", shots="a.csv", device="cpu").export("a.edl", to="edl")
bassl.encode_shots(index="index.h5", videos=[2])
bassl.predict("a.mp4", treshold=0.3)
bassl.predict("a.mp4", 0.4)
bassl.predict("a.mp4", threshold="low")
bassl.load_model().predict("a.mp4", encoder="resnet50")
bassl.load_scenes("a.mp4").regroup(treshold=0.3)
bassl.load_scenes("a.mp4").export("a.edl", otput="b.edl")
bassl.finetune(epoch=3)
"""
    (tmp_path / "program.py").write_text(program)
    libraries = "numpy torch pandas matplotlib PIL rich av cv2 onnxruntime h5py safetensors jinja2"
    skipped = ",".join(f"mypy-{name}.*" for name in libraries.split())  # which it would read for a minute
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n[{skipped}]\nfollow_imports = skip\nfollow_imports_for_stubs = true\n")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir=cache", "program.py"]
    environment = os.environ | {"MYPYPATH": str(HOME)}
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    errors = [line for line in run.stdout.splitlines() if ": error: " in line]
    assert [int(line.split(":")[1]) for line in errors] == [4, 5, 6, 7, 8, 9, 10], run.stdout + run.stderr
    assert 'Unexpected keyword argument "treshold" for "predict"; did you mean "threshold"?' in errors[0]


def test_results_print_themselves_on_one_short_line(tmp_path: Path) -> None:
    scored = tuple(videos(2))
    shot = KeyframedShot(0, 0, 9, 0.0, 0.4, (np.zeros((9, 9, 3), np.uint8),), (4,))
    weights = load_bassl_model(put_pretrained(tmp_path / "m.safetensors"))
    scenes = scene_list((0, 20, 40, 60), [1], (0.1, 0.8, 0.2))
    index = read_index(put_index(tmp_path))
    result = bassl.ScoreResult("run", scored, measure(scored, resamples=0), 0.5, bassl.ScoreSettings())
    for value in (*scored, shot, weights, index, scenes, result):
        text = repr(value)
        assert text.startswith(type(value).__name__ + "(")
        assert len(text) < 400, text
        assert not re.search(r"\n|array|tensor", text), text


def test_an_error_comes_back_whole_from_a_pool_of_processes() -> None:
    error = bassl.SomeFailedError("the store lacks 2 videos", ("a.h5: damaged", "b.h5: missing"))
    received = pickle.loads(pickle.dumps(error))
    assert isinstance(received, bassl.BasslError)
    assert str(received) == str(error) == "the store lacks 2 videos: a.h5: damaged; b.h5: missing"
    assert (received.what, received.failed) == (error.what, error.failed)


def test_a_conflicting_package_called_pipelines_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text("class SaveItem: ...\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(HOME)))}
    command = [sys.executable, "-c", "import bassl"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    last = run.stderr.splitlines()[-1]
    assert last.startswith("ImportError: bassl needs its own package 'pipelines' and finds ")
    assert str(tmp_path / "pipelines.py") in last
