"""What works without the extras of the package, above all without PyTorch; and the messages of the other commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.base_install import EXTRAS
from tests.running import HOME
from tests.scored_things import put_csv, put_pretrained, put_scenes

TORCH = "this model or encoder needs torch, which is not installed: pip install 'bassl[train]'"
CALLS = {
    'bassl.predict_videos([video], "out", dask="tcp://127.0.0.1:9")': ("`dask` needs distributed, which", "cluster"),
    'bassl.load_model(encoder="resnet50")': (TORCH, "train"),
    "bassl.predict(video, resnet)": (TORCH, "train"),
    "bassl.SceneModel(resnet).predict(video)": (TORCH, "train"),
    "bassl.pretrain()": ("pretrain needs ", "train"),
    "bassl.finetune()": ("finetune needs ", "train"),
    "bassl.reproduce()": ("reproduce needs ", "train"),
    'bassl.draw_curves("runs/finetune", "curves.png")': ("a plot needs ", "figures"),
    "bassl.predict(video).to_dataframe()": ("to_dataframe needs pandas", "pandas"),
    # Before anything is read, and thus before the files are found missing.
    "command('pretrain')": ("pretrain needs ", "train"),
    "command('finetune')": ("finetune needs ", "train"),
    "command('encode --gpus 2')": ("", "train"),
    "command('reproduce table1 --plan')": ("this needs torch", "train"),
    "command('predict movie.mp4 --encoder resnet50')": (TORCH, "train"),
    "command('figure curves absent')": ("", "figures"),
    "command('score absent --representation')": ("", "train"),
    "command('extract-keyframes movie.mp4 --dask tcp://127.0.0.1:9')": ("--dask needs distributed", "cluster"),
    "command('extract-keyframes movie.mp4 --detector transnetv2')": ("movie.mp4: ", "transnetv2"),
    "bassl.draw_boundaries('a.json', 'f.png', truth='t.csv')": ("a plot needs ", "figures"),
}
PROGRAM = """
import io, json, shutil, sys
from contextlib import redirect_stderr
import bassl
from bassl_cli import app

video, resnet = sys.argv[1], bassl.PredictSettings(encoder="resnet50")
shutil.copy(video, "movie.mp4")

def command(words):
    sys.argv = ["bassl", *words.split()]
    with redirect_stderr(io.StringIO()) as err:
        try: app.main()
        except SystemExit as end: assert end.code in (1, 2)
    (line,) = (line for line in err.getvalue().splitlines() if line.startswith("bassl: "))
    raise bassl.BasslError(line.removeprefix("bassl: "))

messages = []
for call in json.loads(sys.argv[2]):
    try: eval(call)
    except bassl.BasslError as error: messages.append(str(error))
from pipelines.stages.models import list_models
del sys.modules["matplotlib"]  # which is enough for predicted boundaries
bassl.draw_boundaries("a.json", "f.png", truth="t.csv")
print(json.dumps([messages, [model.stage for model in list_models()]]))
"""


def test_what_needs_an_extra_says_in_one_line_what_to_install(video: Path, tmp_path: Path) -> None:
    put_scenes(tmp_path / "a.json")
    put_csv(tmp_path / "t.csv", 0, 20, 50)
    put_pretrained(tmp_path / "runs/a/model.safetensors")
    # Also read by processes that it starts.
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules |= dict.fromkeys({EXTRAS!r}.split())")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(HOME)))}
    command = [sys.executable, "-c", PROGRAM, str(video), json.dumps([*CALLS])]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    messages, models = json.loads(run.stdout.splitlines()[-1])
    assert models == ["built-in", "imported"]
    for call, message in zip(CALLS, messages, strict=True):
        begin, extra = CALLS[call]
        assert message.startswith(begin), call
        assert message.endswith(f"which is not installed: pip install 'bassl[{extra}]'"), (call, message)
        assert "\n" not in message
