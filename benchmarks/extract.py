"""`bassl extract-keyframes` compared with PySceneDetect's save-images, and with decoding the video only.

    python benchmarks/extract.py VIDEO [VIDEO ...]

All are whole processes, start-up included, run alternately on the same file. Memory is measured on the video and on the
video repeated three times.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import av
from measure import Command, command_line, compare, median, plain, program, python, save, show

DECODE = """
import sys, av
with av.open(sys.argv[1]) as video:
    video.streams.video[0].thread_type = "AUTO"
    for frame in video.decode(video=0):
        pass
"""


def extraction(video: Path, output: Path) -> Command:
    return [program("bassl"), "extract-keyframes", video, "--output", output / "stores", "--overwrite", "--quiet"]


def commands(video: Path, output: Path) -> dict[str, Command]:
    detect = ("-q", "-i", video, "-b", "opencv", "-o", output / "images", "detect-adaptive")
    found = {
        "bassl extract-keyframes": extraction(video, output),
        "scenedetect save-images": [program("scenedetect"), *detect, "save-images", "-n", "3"],
        "decode with PyAV": python(DECODE, video),
    }
    if (ffmpeg := shutil.which("ffmpeg")) is not None:
        found["decode with ffmpeg"] = [ffmpeg, "-v", "error", "-i", video, "-an", "-f", "null", "-"]
    return found


def three_times(video: Path, path: Path) -> Path:
    """Return the frames of a video three times in a row, copied without encoding."""
    with av.open(str(path), "w") as output:
        offset, stream = 0, None
        for _ in range(3):
            end = offset
            with av.open(str(video)) as source:
                track = source.streams.video[0]
                stream = stream or output.add_stream_from_template(track)
                for packet in source.demux(track):
                    if packet.dts is None or packet.pts is None:
                        continue
                    packet.pts, packet.dts = packet.pts + offset, packet.dts + offset
                    end = max(end, packet.pts + (packet.duration or 1))
                    packet.stream = stream
                    output.mux(packet)
            offset = end
    return path


def measure_video(video: Path, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = compare(commands(video, folder), repeats)
        show(f"{video.name}", runs, "bassl extract-keyframes")
        peaks = compare(
            {
                "the video": extraction(video, folder),
                "the video three times": extraction(three_times(video, folder / "three.mp4"), folder),
            },
            max(1, repeats // 2),
        )
        show("memory", peaks, "the video")
    middle = {command: median(of_command) for command, of_command in runs.items()}
    ours = middle["bassl extract-keyframes"]
    print(f"{middle['scenedetect save-images'].wall / ours.wall:.1f} times as fast as scenedetect save-images")
    for name in middle:
        if name.startswith("decode"):
            print(f"{ours.wall / middle[name].wall:.2f} times the time of: {name}")
    return {"runs": plain(runs), "memory": plain(peaks)}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("video", type=Path, nargs="+")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    save("extract", {video.name: measure_video(video, arguments.repeats) for video in arguments.video})


if __name__ == "__main__":
    main()
