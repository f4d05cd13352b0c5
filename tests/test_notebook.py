"""docs/notebook.ipynb: its cells run in order, in a fresh process, with a video beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recipes import documentation
from tests.running import HOME

NOTEBOOK = HOME / "docs" / "notebook.ipynb"

RUN = """
import ast, json, sys, matplotlib
matplotlib.use("agg")
names = {}
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        *statements, last = ast.parse("".join(cell["source"])).body
        shown = isinstance(last, ast.Expr)
        exec(compile(ast.Module(statements + [last] * (not shown), []), "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if shown else None
        for method in ("_repr_html_", "_repr_png_"):
            if hasattr(value, method):
                print("shown", type(value).__name__, len(getattr(value, method)()) > 1000)
"""


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    documentation.make_videos(tmp_path)
    environment = os.environ | {"PYTHONPATH": str(HOME)}
    run = subprocess.run(
        [sys.executable, "-c", RUN, str(NOTEBOOK)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    shown = [line for line in run.stdout.splitlines() if line.startswith("shown")]
    assert shown[0] == "shown SceneList True"
    assert shown[-1] == "shown PngImageFile True"
    assert {"movie.edl", "movie.scenes.html", "clips", "images", "similarity.png"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_the_notebook_has_no_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
