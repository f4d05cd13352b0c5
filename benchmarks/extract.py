"""`bassl extract-keyframes` compared with PySceneDetect's save-images, and with decoding the film and nothing else.

    python benchmarks/extract.py FILM [FILM ...]

All are whole processes, start-up included, run alternately on the same file. Memory is measured on the film and on the
film repeated three times.
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
with av.open(sys.argv[1]) as film:
    film.streams.video[0].thread_type = "AUTO"
    for frame in film.decode(video=0):
        pass
"""


def extraction(film: Path, output: Path) -> Command:
    return [program("bassl"), "extract-keyframes", film, "--output", output / "stores", "--overwrite", "--quiet"]


def commands(film: Path, output: Path) -> dict[str, Command]:
    detect = ("-q", "-i", film, "-b", "opencv", "-o", output / "images", "detect-adaptive")
    found = {
        "bassl extract-keyframes": extraction(film, output),
        "scenedetect save-images": [program("scenedetect"), *detect, "save-images", "-n", "3"],
        "decode with PyAV": python(DECODE, film),
    }
    if (ffmpeg := shutil.which("ffmpeg")) is not None:
        found["decode with ffmpeg"] = [ffmpeg, "-v", "error", "-i", film, "-an", "-f", "null", "-"]
    return found


def three_times(film: Path, path: Path) -> Path:
    """The pictures of a film three times in a row, copied without coding them anew."""
    with av.open(str(path), "w") as output:
        offset, stream = 0, None
        for _ in range(3):
            end = offset
            with av.open(str(film)) as source:
                pictures = source.streams.video[0]
                stream = stream or output.add_stream_from_template(pictures)
                for packet in source.demux(pictures):
                    if packet.dts is None or packet.pts is None:
                        continue
                    packet.pts, packet.dts = packet.pts + offset, packet.dts + offset
                    end = max(end, packet.pts + (packet.duration or 1))
                    packet.stream = stream
                    output.mux(packet)
            offset = end
    return path


def measure_film(film: Path, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = compare(commands(film, folder), repeats)
        show(f"{film.name}", runs, "bassl extract-keyframes")
        peaks = compare(
            {
                "the film": extraction(film, folder),
                "the film three times": extraction(three_times(film, folder / "three.mp4"), folder),
            },
            max(1, repeats // 2),
        )
        show("memory", peaks, "the film")
    middle = {command: median(of_command) for command, of_command in runs.items()}
    ours = middle["bassl extract-keyframes"]
    print(f"{middle['scenedetect save-images'].wall / ours.wall:.1f} times as fast as scenedetect save-images")
    for name in middle:
        if name.startswith("decode"):
            print(f"{ours.wall / middle[name].wall:.2f} times the time of: {name}")
    return {"runs": plain(runs), "memory": plain(peaks)}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("film", type=Path, nargs="+")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    save("extract", {film.name: measure_film(film, arguments.repeats) for film in arguments.film})


if __name__ == "__main__":
    main()
