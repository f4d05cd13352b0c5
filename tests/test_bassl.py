"""The public package: all names exist, import is light, and a conflicting package is reported."""

import ast
import inspect
import os
import pickle
import re
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

import bassl
import pipelines
from tests.running import HOME


def test_every_public_name_exists_and_is_documented() -> None:
    assert {"BasslError", "SceneList", "load_model", "predict", "predict_videos"} <= set(bassl.__all__)
    for name in bassl.__all__:
        assert getattr(bassl, name).__doc__, name
    assert bassl.__version__ == pipelines.__version__


def test_dir_lists_the_public_names_and_nothing_else() -> None:
    assert dir(bassl) == sorted([*bassl.__all__, "__version__"])


def test_settings_that_public_settings_hold_are_public() -> None:
    for name in bassl.__all__:
        if name.endswith("Settings"):
            types = get_type_hints(getattr(bassl, name)).values()
            assert {one.__name__ for one in types if is_dataclass(one)} <= set(bassl.__all__), name


def test_every_function_with_settings_takes_options_by_name() -> None:
    functions = [getattr(bassl, name) for name in bassl.__all__ if inspect.isfunction(getattr(bassl, name))]
    parameters = {function.__name__: set(inspect.signature(function).parameters) for function in functions}
    assert [name for name, names in parameters.items() if "settings" in names and "options" not in names] == []


def test_a_missing_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'bassl' has no attribute 'predikt'"):
        _ = bassl.predikt  # type: ignore[attr-defined]


def test_an_error_comes_back_whole_from_a_pool_of_processes() -> None:
    error = bassl.SomeFailedError("the store lacks 2 videos", ("a.h5: damaged", "b.h5: missing"))
    received = pickle.loads(pickle.dumps(error))
    assert isinstance(received, bassl.BasslError)
    assert str(received) == str(error) == "the store lacks 2 videos: a.h5: damaged; b.h5: missing"
    assert (received.what, received.failed) == (error.what, error.failed)


def test_messages_name_settings_and_not_options_of_the_command_line() -> None:
    makes_commands = {"training/launching.py", "outputs/page/__init__.py"}
    makes_commands |= {"stages/reproduce/measuring.py", "stages/reproduce/planning.py"}
    other_programs = re.compile("docker run|pip install|mkvmerge|python -m")
    for module in sorted((HOME / "pipelines").rglob("*.py")):
        if module.relative_to(HOME / "pipelines").as_posix() in makes_commands:
            continue
        nodes = list(ast.walk(ast.parse(module.read_text(encoding="utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        docstrings |= {
            id(node.args[0]) for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "Doc"
        }
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                has_option = re.search(r"--[a-z]| -o\b", node.value) and not other_programs.search(node.value)
                assert not has_option, f"{module}:{node.lineno}: write settings as in Python: `overwrite=True`"


def test_a_conflicting_package_called_pipelines_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text("class SaveItem: ...\n")
    path = os.pathsep.join((str(tmp_path), str(HOME)))
    environment = os.environ | {"PYTHONPATH": path}
    run = subprocess.run(
        [sys.executable, "-c", "import bassl"], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    last = run.stderr.splitlines()[-1]
    assert last.startswith("ImportError: bassl needs its own package 'pipelines' and finds ")
    assert str(tmp_path / "pipelines.py") in last
