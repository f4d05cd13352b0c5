"""Windows: the base installation works with what Windows has. Only the modules and functions are Windows'; the rest is
the system of the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.running import HOME, linux

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join((str(HOME / "tests/without_posix"), str(HOME))),
    "PYTHONWARNDEFAULTENCODING": "1",
}
REFUSALS = {
    "import fcntl": "ModuleNotFoundError",
    "os.getuid()": "AttributeError",
    "from os import sched_getaffinity": "ImportError",
    "signal.SIGKILL": "AttributeError",
    "os.open('.', os.O_RDONLY)": "PermissionError",
    "Path('open').replace('moved')": "PermissionError",
    "Path('open').unlink()": "PermissionError",
    "Path('file').read_text()": "EncodingWarning",
}


def python(folder: Path, *arguments: str) -> str:
    """Return what Python prints, without what Windows lacks if the system is Linux."""
    command = [sys.executable, *arguments]
    run = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@linux
def test_linux_without_what_windows_lacks_refuses_each_of_it_to_the_code_of_this_project(tmp_path: Path) -> None:
    program = f"""
for statement in {list(REFUSALS)!r}:
    names = {{"__name__": "pipelines.module"}}
    exec("import ctypes, os, signal; from pathlib import Path", names)
    for name in ("file", "open"):
        names["Path"](name).write_bytes(b"content")
    names["reading"] = open("open", "rb")
    try:
        exec(compile(statement, {str(HOME / "pipelines" / "module.py")!r}, "exec"), names)
    except Exception as error:
        print(type(error).__name__)
    else:
        print("nothing")
"""
    assert dict(zip(REFUSALS, python(tmp_path, "-c", program).splitlines(), strict=True)) == REFUSALS


def test_the_base_installation_works_with_the_modules_and_functions_of_windows(tmp_path: Path) -> None:
    python(tmp_path, "-m", "tests.base_install", str(tmp_path))
    assert {path.name for path in tmp_path.rglob(".*")} == {".bassl.json"}  # no temporary files and locks
