"""Segments of generated videos, where they are known, and of a real one: black, color bars and credits.

    python benchmarks/segments.py [VIDEO FILE]

A generated video has a story, and some have credits before or after it: cards or scrolling lines over black, a color,
a gradient or a blurred photo that is zoomed slowly. Its story has what may be taken for credits: snow, dark scenes,
fades, plain cartoons, subtitles, and titles over action. Limits were chosen on the tuning videos, which have other
seeds and fonts. FILE lists the segments of a real video, each with start and end in seconds, and kind. Needs the fonts
DejaVu and Liberation in /usr/share/fonts/truetype.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from measure import command_line, save
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from pipelines.datasets.synthetic import SyntheticVideoSettings, write_video
from pipelines.video.reader import VideoReader
from pipelines.video.shots import ReaderSettings

Images = NDArray[np.uint8]
RATE = 12
KINDS = ("black", "bars", "opening_credits", "end_credits")
Range = tuple[str, float, float]  # kind, start and end in seconds
SIZES = ((426, 240), (640, 360), (854, 480))
BARS = ((191, 191, 191), (191, 191, 0), (0, 191, 191), (0, 191, 0), (191, 0, 191), (191, 0, 0), (0, 0, 191))
FONTS = {
    True: ("dejavu/DejaVuSans.ttf", "dejavu/DejaVuSerif-Bold.ttf", "dejavu/DejaVuSansCondensed-Bold.ttf"),
    False: (
        "liberation/LiberationSans-Regular.ttf",
        "liberation/LiberationSerif-Bold.ttf",
        "liberation/LiberationSansNarrow-Bold.ttf",
    ),
}
SYLLABLES = (
    "an",
    "bel",
    "cor",
    "dan",
    "el",
    "fri",
    "ger",
    "hol",
    "in",
    "jo",
    "kar",
    "lim",
    "mar",
    "no",
    "os",
    "pet",
    "quin",
    "ro",
    "sten",
    "tor",
    "ul",
    "ver",
    "wil",
    "yan",
    "zo",
)


def words(rng: Generator, count: int) -> str:
    names = ["".join(rng.choice(SYLLABLES, rng.integers(2, 4))) for _ in range(count)]
    return " ".join(names).title()


def background(rng: Generator, size: tuple[int, int], seconds: float) -> Iterator[Images]:
    """Black, a color, a gradient or a blurred photo that is zoomed slowly, for ever."""
    width, height = size
    kind = rng.choice(["black", "color", "gradient", "photo"], p=[0.4, 0.15, 0.2, 0.25])
    if kind == "photo":
        noise = rng.integers(0, 150, (6, 10, 3)).astype(np.uint8)
        photo = cv2.resize(noise, (width * 2, height * 2), interpolation=cv2.INTER_CUBIC)
        for index in range(int(seconds * RATE) + 1):
            side = 1 - 0.2 * index / (seconds * RATE + 1)
            w, h = int(width * 2 * side), int(height * 2 * side)
            x, y = width - w // 2, height - h // 2
            yield cv2.resize(photo[y : y + h, x : x + w], size, interpolation=cv2.INTER_AREA)
    color, other = rng.integers(0, 140, (2, 3))
    ramp = np.linspace(0, 1, height)[:, None, None] if kind == "gradient" else np.zeros((height, 1, 1))
    image = np.broadcast_to((1 - ramp) * color + ramp * other, (height, width, 3)) * (kind != "black")
    while True:
        yield image.astype(np.uint8)


def block(rng: Generator, lines: int, two: bool) -> list[tuple[str, str]]:
    return [(words(rng, int(rng.integers(1, 3))), words(rng, 2) if two else "") for _ in range(lines)]


def text_image(size: tuple[int, int], font: Any, lines: Sequence[tuple[str, str]], top: float) -> Images:
    """Return a mask of lines of text, centered, or in two columns that meet in the middle."""
    width, height = size
    mask = Image.new("L", size)
    draw, step = ImageDraw.Draw(mask), font.size * 1.5
    for row, (left, right) in enumerate(lines):
        y = top + row * step
        if -step < y < height and right:
            draw.text((width / 2 - 8, y), left, 255, font, anchor="ra")
            draw.text((width / 2 + 8, y), right, 255, font, anchor="la")
        elif -step < y < height:
            draw.text((width / 2, y), left, 255, font, anchor="ma")
    return np.asarray(mask)


def blended(image: Images, mask: Images, color: Any, opacity: float = 1.0) -> Images:
    share = mask[..., None] / 255 * opacity
    return np.rint(image * (1 - share) + np.asarray(color) * share).astype(np.uint8)


def font_of(rng: Generator, tuning: bool, height: int, least: float, most: float) -> Any:
    name = str(rng.choice(FONTS[tuning]))
    return ImageFont.truetype(f"/usr/share/fonts/truetype/{name}", int(height * rng.uniform(least, most)))


def titles(rng: Generator, size: tuple[int, int], tuning: bool, scrolls: bool) -> Iterator[Images]:
    seconds = float(rng.uniform(14, 30))
    behind, color = background(rng, size, seconds), rng.integers(190, 256, 3)
    height = size[1]
    if scrolls:
        font = font_of(rng, tuning, height, 0.035, 0.07)
        lines = block(rng, int(rng.integers(15, 45)), bool(rng.random() < 0.6))
        length = height + len(lines) * font.size * 1.5
        for index in range(int(seconds * RATE)):
            mask = text_image(size, font, lines, height - length * (index + 6) / (seconds * RATE))
            yield blended(next(behind), mask, color)
        return
    font = font_of(rng, tuning, height, 0.05, 0.1)
    left = int(seconds * RATE)
    while left > 0:
        lines = block(rng, int(rng.integers(1, 6)), bool(rng.random() < 0.4))
        mask = text_image(size, font, lines, height / 2 - len(lines) * font.size * 0.75)
        shown, fade = int(RATE * rng.uniform(2, 4.5)), int(RATE * rng.choice([0, 0.5]))
        for index in range(shown):
            opacity = min(1.0, (index + 1) / (fade + 1), (shown - index) / (fade + 1))
            yield blended(next(behind), mask, color, opacity)
        for _ in range(int(RATE * rng.choice([0, 0.3, 1]))):
            yield next(behind)
        left -= shown


def snow(rng: Generator, size: tuple[int, int]) -> Iterator[Images]:
    width, height = size
    count, speed = int(rng.integers(60, 900)), rng.uniform(0.02, 0.1) * height
    x, y, r = rng.uniform(0, width, count), rng.uniform(0, height, count), rng.integers(1, 3, count)
    dark = rng.integers(0, 70, 3)
    for index in range(int(rng.uniform(10, 16) * RATE)):
        image = np.full((height, width, 3), dark, np.uint8)
        for a, b, c in zip(x + 5 * np.sin(index / 9 + y), (y + speed * index) % height, r, strict=True):
            cv2.circle(image, (int(a) % width, int(b)), int(c), (230, 235, 240), -1, cv2.LINE_AA)
        yield image


def cartoon(rng: Generator, size: tuple[int, int]) -> Iterator[Images]:
    """Flat colors, and figures with outlines that move."""
    width, height = size
    sky, ground = rng.integers(60, 256, (2, 3)).tolist()
    figures = [
        (
            rng.uniform(0, 1),
            rng.uniform(0.4, 0.8),
            rng.uniform(0.05, 0.2),
            rng.integers(0, 256, 3).tolist(),
            rng.uniform(-0.1, 0.1),
        )
        for _ in range(rng.integers(1, 7))
    ]
    for index in range(int(rng.uniform(10, 16) * RATE)):
        image = np.full((height, width, 3), sky, np.uint8)
        image[int(height * 0.7) :] = ground
        for x, y, r, color, speed in figures:
            at = int((x + speed * index / RATE) % 1 * width), int(y * height)
            cv2.ellipse(image, (at, (int(r * height), int(1.6 * r * height)), 0), color, -1, cv2.LINE_AA)
            cv2.ellipse(image, (at, (int(r * height), int(1.6 * r * height)), 0), (20, 20, 20), 2, cv2.LINE_AA)
        yield image


def subtitled(rng: Generator, size: tuple[int, int], tuning: bool, images: Iterator[Images]) -> Iterator[Images]:
    font = font_of(rng, tuning, size[1], 0.05, 0.07)
    for index, image in enumerate(images):
        if index % (3 * RATE) == 0:
            lines = block(rng, 2, False)
            mask = text_image(size, font, [(words(rng, 4), "") for _ in lines], size[1] * 0.97 - 3 * font.size)
        yield blended(image, mask, (250, 250, 250)) if index % (3 * RATE) < 2.5 * RATE else image


def titled(rng: Generator, size: tuple[int, int], tuning: bool, images: Iterator[Images]) -> Iterator[Images]:
    """Names over action, for three seconds in five."""
    font = font_of(rng, tuning, size[1], 0.06, 0.12)
    for index, image in enumerate(images):
        if index % (5 * RATE) == 0:
            mask = text_image(size, font, block(rng, 2, False), size[1] * rng.uniform(0.2, 0.6))
        yield blended(image, mask, (250, 250, 250)) if index % (5 * RATE) < 3 * RATE else image


def bars(size: tuple[int, int], seconds: float) -> Iterator[Images]:
    image = np.zeros((size[1], size[0], 3), np.uint8)
    for number, color in enumerate(BARS):
        image[:, number * size[0] // 7 : (number + 1) * size[0] // 7] = color
    image[int(size[1] * 0.75) :] = 16
    for _ in range(int(seconds * RATE)):
        yield image


def story(path: Path, seed: int, size: tuple[int, int]) -> list[Images]:
    """Return the images of a generated video of about half a minute."""
    settings = SyntheticVideoSettings(seed, 4, (2, 4), (1.5, 4.0), RATE, *size, dissolves=1)
    write_video(path, settings)
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def parts(
    rng: Generator, seed: int, tuning: bool, size: tuple[int, int], folder: Path
) -> Iterator[tuple[str, Iterator[Images]]]:
    black = np.zeros((size[1], size[0], 3), np.uint8)
    frames = story(folder / f"story{seed}.mp4", seed + 1000 * tuning, size)
    third = len(frames) // 3
    if rng.random() < 0.25:
        yield "bars", bars(size, 4)
    if rng.random() < 0.5:
        yield "black", iter([black] * int(RATE * rng.uniform(0.7, 2)))
    if rng.random() < 0.4:
        yield "opening_credits", titles(rng, size, tuning, False)
    extras = [
        iter(frames[third : 2 * third]),
        iter([(image * rng.uniform(0.08, 0.2)).astype(np.uint8) for image in frames[:third]]),
        snow(rng, size),
        cartoon(rng, size),
        subtitled(rng, size, tuning, iter(frames[third:])),
        subtitled(rng, size, tuning, cartoon(rng, size)),
        subtitled(rng, size, tuning, iter([(image * 0.1).astype(np.uint8) for image in frames[:third]])),
        titled(rng, size, tuning, iter(frames[: 2 * third])),
    ]
    yield "", iter(frames[:third])
    for number in rng.permutation(len(extras))[:5].tolist():
        yield "", extras[number]
        if rng.random() < 0.3:
            yield "black", iter([black] * int(RATE * rng.uniform(0.7, 2)))
    fade = frames[2 * third :]
    yield "", (np.rint(image * min(1.0, (len(fade) - i) / RATE)).astype(np.uint8) for i, image in enumerate(fade))
    if rng.random() < 0.6:
        if rng.random() < 0.5:
            yield "black", iter([black] * int(RATE * rng.uniform(0.7, 2)))
        yield "end_credits", titles(rng, size, tuning, bool(rng.random() < 0.6))
        if rng.random() < 0.3:
            yield "", iter(frames[:third])


def make_video(path: Path, seed: int, tuning: bool) -> list[Range]:
    """Write a video, and return its segments in seconds."""
    rng = np.random.default_rng([seed, tuning])
    size = SIZES[seed % len(SIZES)]
    truth: list[Range] = []
    count = 0
    shows: list[str] = []  # of each frame: black, bars or neither
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", Fraction(RATE), options={"preset": "veryfast", "crf": "26"})
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for kind, images in parts(rng, seed, tuning, size, path.parent):
            start = count
            for image in images:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
                shows.append("bars" if kind == "bars" else "" if image.any() else "black")
                count += 1
            if kind.endswith("credits"):
                truth.append((kind, start / RATE, count / RATE))
        container.mux(stream.encode(None))
    start = 0
    for kind, run in groupby(shows):
        end = start + len(list(run))
        if kind and end - start >= RATE / 2:
            truth.append((kind, start / RATE, end / RATE))
        start = end
    return truth


def find(video: Path) -> list[Range]:
    reader = VideoReader(video, ReaderSettings())
    for _ in reader:
        pass
    return [(segment.kind, segment.start, segment.end) for segment in reader.segments]


def seconds(ranges: Sequence[Range], kind: str) -> NDArray[np.bool_]:
    """Return whether each hundredth of a second, of two hours at most, is in a segment of a kind."""
    inside = np.zeros(720_000, bool)
    for own, start, end in ranges:
        if own == kind:
            inside[round(start * 100) : round(end * 100)] = True
    return inside


def count(truth: Sequence[Range], found: Sequence[Range]) -> Counter[tuple[str, str]]:
    """Of each kind: segments, true and found; hits, which share half of their union with a true one; and seconds."""
    counts: Counter[tuple[str, str]] = Counter()
    for kind in KINDS:
        true, claimed = ([item for item in ranges if item[0] == kind] for ranges in (truth, found))
        counts[kind, "true"], counts[kind, "found"] = len(true), len(claimed)
        for _, start, end in true:
            shares = [(min(end, b) - max(start, a)) / (max(end, b) - min(start, a)) for _, a, b in claimed]
            counts[kind, "hits"] += max(shares, default=0) >= 0.5
        one, other = seconds(truth, kind), seconds(found, kind)
        for name, both in (("true s", one), ("found s", other), ("shared s", one & other)):
            counts[kind, name] = int(both.sum())
    return counts


def show(title: str, counts: Counter[tuple[str, str]]) -> dict[str, Any]:
    figures = {}
    print(f"\n{title}\n{'':16}  true  found  hits   precision and recall of seconds")
    for kind in KINDS:
        true, claimed, shared = (counts[kind, name] for name in ("true s", "found s", "shared s"))
        figures[kind] = {name: counts[kind, name] for name in ("true", "found", "hits")}
        figures[kind] |= {"precision": shared / max(claimed, 1), "recall": shared / max(true, 1)}
        print("{:16}  {true:4}  {found:5}  {hits:4}   {precision:.3f} {recall:.3f}".format(kind, **figures[kind]))
    return figures


def read_ranges(path: Path) -> list[Range]:
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [(kind, float(start), float(end)) for start, end, kind in lines]


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("real", type=Path, nargs="*", metavar="VIDEO FILE")
    parser.add_argument("--videos", type=int, default=20, help="generated videos of each half (default: %(default)s)")
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for half in ("tuning", "test"):
            counts: Counter[tuple[str, str]] = Counter()
            for seed in range(arguments.videos):
                video = Path(folder) / f"{half}{seed}.mp4"
                counts += count(make_video(video, seed, half == "tuning"), find(video))
            results[half] = show(f"{half} videos", counts)
    if arguments.real:
        video, truth = arguments.real
        results[video.name] = show(video.name, count(read_ranges(truth), find(video)))
    save("segments", results)


if __name__ == "__main__":
    main()
