"""docs/notebook.ipynb: its outputs are what its cells give, in order, in a fresh process, with a video beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recipes import documentation
from tests.running import ENVIRONMENT, HOME


def code_cells(notebook: str) -> list[Any]:
    return [cell for cell in json.loads(notebook)["cells"] if cell["cell_type"] == "code"]


def texts(notebook: str) -> list[list[str]]:
    """Return what each code cell prints and shows, as text."""
    return [
        ["".join(one.get("text") or one["data"].get("text/plain", "image")) for one in cell["outputs"]]
        for cell in code_cells(notebook)
    ]


SHIPPED = documentation.NOTEBOOK.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_notebook_runs_and_gives_the_outputs_that_it_is_shipped_with(tmp_path: Path) -> None:
    documentation.make_videos(tmp_path)
    program = "import json; from recipes.documentation import run_notebook as run; print(json.dumps(run()))"
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert texts(run.stdout) == texts(SHIPPED)
    for name in ("movie.edl", "movie.scenes.html", "clips", "images", "boundaries.png"):
        assert (tmp_path / name).exists(), name


def test_the_notebook_is_shipped_with_tables_and_plots() -> None:
    cells = code_cells(SHIPPED)
    assert all(cell["outputs"] and cell["execution_count"] for cell in cells)
    kinds = [kind for cell in cells for output in cell["outputs"] for kind in output.get("data", ())]
    assert kinds.count("text/html") >= 4
    assert kinds.count("image/png") == 2
    assert str(HOME.parent) not in SHIPPED
