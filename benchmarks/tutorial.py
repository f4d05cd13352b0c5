"""The first run of docs/training.md, as it stands there, and its figures.

    python benchmarks/tutorial.py --write

Runs the commands of the block in a temporary folder, and prints a table of their model and of the built-in one;
`--write` puts it into the page.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import measure

from recipes.documentation import HOME, blocks

PAGE = HOME / "docs" / "training.md"
BUILT_IN = "\n".join(
    f"bassl score default --split {split} --resamples 0 --json > {split}.json" for split in ("val", "test")
)
HEADER = "| model | AP validation | F1 validation | AP test | F1 test |"


def run_in(folder: Path, commands: str) -> None:
    """Run lines of a shell with this Python's `python` and `bassl`."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(HOME)}
    subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment, check=True)


def row_of(name: str, *values: float) -> str:
    return f"| {' | '.join((name, *(f'{100 * value:.1f}' for value in values)))} |"


def table_of(folder: Path) -> tuple[list[str], dict[str, Any]]:
    result = json.loads((folder / "runs" / "finetune" / "result.json").read_text())
    (chosen,) = (seed for seed in result["seeds"] if seed["seed"] == result["chosen_seed"])
    own, test = chosen["validation"], result["mean"]
    default = {split: json.loads((folder / f"{split}.json").read_text())["metrics"] for split in ("val", "test")}
    built_in = [default[split][metric]["pooled"] for split in ("val", "test") for metric in ("ap", "f1")]
    rows = [
        HEADER,
        "| --- | ---: | ---: | ---: | ---: |",
        row_of("`--crn relational`", own["ap"], own["f1_calibrated"], test["ap"], test["f1_calibrated"]),
        row_of("built-in", *built_in),
    ]
    return rows, {"validation": own, "test": test, "built_in": default, **result["recipe"]}


def main() -> None:
    parser = measure.command_line(__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/training.md")
    arguments = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    (first_run,) = (block for block in blocks(page, "sh") if "pipelines.datasets.synthetic" in block)
    with tempfile.TemporaryDirectory() as name:
        run_in(Path(name), f"{first_run}\n{BUILT_IN}")
        rows, figures = table_of(Path(name))
    print("\n".join(rows))
    if arguments.write:
        old = re.compile(re.escape(HEADER) + r"\n(\|.*\n)+")
        PAGE.write_text(old.sub("\n".join(rows) + "\n", page, count=1), encoding="utf-8")
    measure.save("tutorial", figures)


if __name__ == "__main__":
    main()
