"""The whole of `bassl predict` against PySceneDetect finding shots alone, and where its time goes.

    python benchmarks/predict.py FILM

All are whole processes, start-up included, run in turns on the same file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from measure import Command, compare, median, plain, program, python, save, show

DECODE = """
import sys
from pathlib import Path
from pipelines.video.decoding import VideoDecoder
with VideoDecoder(Path(sys.argv[1])) as film:
    for frame in film.frames():
        pass
"""

READ = """
import sys
from pathlib import Path
from pipelines.video.reader import FilmReader
from pipelines.video.shots import ReaderSettings
for shot in FilmReader(Path(sys.argv[1]), ReaderSettings()):
    pass
"""

LOAD = """
from pipelines.models.opening import open_model
from pipelines.models.encoders import encode_groups, load_encoder
model = open_model(None).boundary_model()
encoder = load_encoder("efficientnet_lite0", "auto")
"""

ENCODE = (
    LOAD
    + """
import sys
import numpy as np
from pipelines.processes import cores
picture = np.random.default_rng(0).integers(0, 256, (240, 426, 3)).astype(np.uint8)
shots = int(sys.argv[1])
groups = [min(encoder.shots_at_a_time, shots - at) for at in range(0, shots, encoder.shots_at_a_time)]
for _ in encode_groups(encoder, groups, lambda n: [[picture] * 3] * n, max(1, cores() // 2)):
    pass
"""
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("film", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    film = arguments.film
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        predict: Command = [program("bassl"), "predict", film, "--output", folder / "scenes.json", "--quiet"]
        detect = ("-q", "-i", film, "-b", "opencv", "-o", folder, "detect-adaptive", "list-scenes")
        whole = compare({"bassl predict": predict, "scenedetect": [program("scenedetect"), *detect]}, arguments.repeats)
        found = json.loads((folder / "scenes.json").read_text())
    shots, scenes = len(found["shots"]), len(found["scenes"])
    show(f"{film.name}: {shots} shots, {scenes} scenes", whole, "scenedetect")
    parts = compare(
        {
            "decode": python(DECODE, film),
            "read: decode, detect, keyframes": python(READ, film),
            "load torch and models": python(LOAD),
            "load, and encode the shots": python(ENCODE, str(shots)),
        },
        max(1, arguments.repeats // 2),
    )
    show("where the time goes (each alone; the last two run beside the reading)", parts, "decode")
    ratio = median(whole["bassl predict"]).wall / median(whole["scenedetect"]).wall
    print(f"\nbassl predict takes {ratio:.2f} of the time of scenedetect")
    save(
        "predict",
        {"film": film.name, "shots": shots, "scenes": scenes, "whole": plain(whole), "parts": plain(parts)},
    )


if __name__ == "__main__":
    main()
