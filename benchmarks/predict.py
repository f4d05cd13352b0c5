"""`bassl predict` compared with PySceneDetect, which finds shots only, and FFmpeg decoding; its memory and its parts.

    python benchmarks/predict.py VIDEO

All are whole processes, start-up included, run alternately on the same file. Memory is measured on the video and on the
video repeated to three hours.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from measure import Command, command_line, compare, measure, median, plain, program, python, save, show

DECODE = """
import sys
from pathlib import Path
from pipelines.video.decoding import VideoDecoder
with VideoDecoder(Path(sys.argv[1])) as video:
    for frame in video.frames():
        pass
"""

READ = """
import os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as in the process that reads
from pathlib import Path
from pipelines.video.reader import VideoReader
from pipelines.video.shots import ReaderSettings
for shot in VideoReader(Path(sys.argv[1]), ReaderSettings()):
    pass
"""

LOAD = """
from pipelines.models.opening import open_model
from pipelines.models.encoder_loading import load_encoder
from pipelines.models.encoders.shot_encoder import encode_groups
model = open_model(None).boundary_model()
encoder = load_encoder()
"""

ENCODE = (
    LOAD
    + """
import sys
import numpy as np
from pipelines.processes import cores
image = np.random.default_rng(0).integers(0, 256, (240, 426, 3)).astype(np.uint8)
shots = int(sys.argv[1])
groups = [min(encoder.shots_at_a_time, shots - at) for at in range(0, shots, encoder.shots_at_a_time)]
for _ in encode_groups(encoder, groups, lambda n: [[image] * 3] * n, max(1, cores() // 2)):
    pass
"""
)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("video", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--long", type=float, default=3.0, help="hours of the video joined to itself, for the memory; 0: none"
    )
    arguments = parser.parse_args()
    video = arguments.video
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def predict(video: Path, *options: str) -> Command:
            output = ("--output", folder / "scenes.json", "--overwrite", "--quiet")
            return [program("bassl"), "predict", video, *output, *options]

        detect = ("-q", "-i", video, "-b", "opencv", "-o", folder, "detect-adaptive", "list-scenes")
        commands: dict[str, Command] = {
            "bassl predict": predict(video),
            "bassl predict --report": predict(video, "--report"),
            "scenedetect": [program("scenedetect"), *detect],
        }
        if shutil.which("ffmpeg"):
            decode = ("-v", "error", "-threads", "2", "-i", video, "-map", "0:v:0", "-f", "null", "-")
            commands["ffmpeg, null output"] = ["ffmpeg", *decode]
        whole = compare(commands, arguments.repeats)
        found = json.loads((folder / "scenes.json").read_text())
        memory = {}
        if arguments.long and shutil.which("ffmpeg"):
            long = folder / "long.mkv"
            times = round(arguments.long * 3600 / found["video"]["duration"])
            joined = ("-v", "error", "-stream_loop", str(times - 1), "-i", video, "-map", "0:v:0", "-c", "copy", long)
            subprocess.run(["ffmpeg", *joined], check=True)
            for options in ((), ("--report",)):
                peak = measure(predict(long, *options)).peak
                short = median(whole[" ".join(("bassl predict", *options))]).peak
                memory[" ".join(options)] = {"video": short, "long": peak, "ratio": peak / short}
    shots, scenes = len(found["shots"]), len(found["scenes"])
    show(f"{video.name}: {shots} shots, {scenes} scenes", whole, "scenedetect")
    parts = compare(
        {
            "decode": python(DECODE, video),
            "read: decode, detect, keyframes": python(READ, video),
            "load the models": python(LOAD),
            "load, and encode the shots": python(ENCODE, str(shots)),
        },
        max(1, arguments.repeats // 2),
    )
    show("time of each part alone (the last two run while the video is read)", parts, "decode")
    for options, peaks in memory.items():
        print(
            f"peak of all processes of bassl predict {options}: {peaks['video']:.0f} MiB, "
            f"of {arguments.long:g} hours {peaks['long']:.0f} MiB, ratio {peaks['ratio']:.2f}"
        )
    save(
        "predict",
        {
            "video": video.name,
            "shots": shots,
            "scenes": scenes,
            "whole": plain(whole),
            "parts": plain(parts),
            "memory": memory,
        },
    )


if __name__ == "__main__":
    main()
