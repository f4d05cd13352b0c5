"""Windows: the base installation works with what Windows has. Only the modules and functions are Windows'; the rest is
the system of the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.running import HOME

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join((str(HOME / "tests/without_posix"), str(HOME))),
    "PYTHONWARNDEFAULTENCODING": "1",
}


def test_the_base_installation_works_with_the_modules_and_functions_of_windows(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.base_install", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert {path.name for path in tmp_path.rglob(".*")} == {".bassl.json"}  # no temporary files and locks
