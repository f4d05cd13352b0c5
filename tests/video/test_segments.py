"""Segments that are found while a video is read: black, color bars and credits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from pipelines.scenes import Segment
from pipelines.video.images import RGBImage
from pipelines.video.reader import VideoReader
from pipelines.video.segments import Look, credit_segments
from pipelines.video.shots import ReaderSettings
from tests import videos
from tests.video.test_hdr import hdr_codes, write_hdr

RATE, WIDTH, HEIGHT = 8, 320, 180
NAMES = [f"{first} {last}" for last in ("Marlow", "Osterfeld", "Quintana") for first in ("Anna", "Bertram", "Jo")]
BARS = ((180, 180, 180), (180, 180, 16), (16, 180, 180), (16, 180, 16), (180, 16, 180), (180, 16, 16), (16, 16, 180))


def plain(seconds: float, color: tuple[int, int, int] = (0, 0, 0)) -> Iterator[RGBImage]:
    return videos.plain_images(round(seconds * RATE), color, WIDTH, HEIGHT)


@cache
def texture(seed: int, shot: int) -> RGBImage:
    coarse = np.random.default_rng([seed, shot]).integers(0, 256, (24, 60, 3), np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((2 * WIDTH, HEIGHT)))


def action(seconds: float, seed: int = 0) -> Iterator[RGBImage]:
    """Yield a texture that pans fast, with a cut each two seconds."""
    for index in range(round(seconds * RATE)):
        yield texture(seed, index // (2 * RATE))[:, 8 * (index % 40) :][:, :WIDTH]


def written(image: RGBImage, lines: Iterable[str], top: float, size: int = 15) -> RGBImage:
    """Return the image with centered lines of text, the first at ``top``."""
    canvas = Image.fromarray(image)
    font = ImageFont.load_default(size)
    for row, line in enumerate(lines):
        y = top + 1.5 * size * row
        if -2 * size < y < HEIGHT:  # drawing takes long, also beyond the edges
            ImageDraw.Draw(canvas).text((WIDTH / 2, y), line, (235, 235, 235), font, anchor="ma")
    return np.asarray(canvas)


def cards(seconds: float, color: tuple[int, int, int] = (0, 0, 0)) -> Iterator[RGBImage]:
    """Yield names, three at a time, with pauses of half a second between them."""
    for index, image in enumerate(plain(seconds, color)):
        card, frame = divmod(index, 4 * RATE)
        yield image if frame < RATE / 2 else written(image, NAMES[card * 3 % 9 :][:3], 60)


def scrolling(seconds: float, color: tuple[int, int, int] = (0, 0, 0)) -> Iterator[RGBImage]:
    """Yield names that enter at the bottom and leave at the top."""
    lines, frames = NAMES * 3, round(seconds * RATE)
    for index, image in enumerate(plain(seconds, color)):
        yield written(image, lines, HEIGHT - (HEIGHT + 22.5 * len(lines)) * index / frames)


def slow(seconds: float) -> Iterator[RGBImage]:
    """Yield names over a blurred photo that moves slowly."""
    photo = Image.fromarray(np.random.default_rng(1).integers(20, 140, (4, 6, 3), np.uint8))
    wide = np.asarray(photo.resize((WIDTH + 200, HEIGHT), Image.Resampling.BICUBIC))
    for index in range(round(seconds * RATE)):
        yield written(wide[:, index:][:, :WIDTH], NAMES[index // (4 * RATE) * 2 % 8 :][:2], 70)


def subtitled(images: Iterable[RGBImage]) -> Iterator[RGBImage]:
    return (written(image, ["And where have you been all night,", "if I may ask?"], 140, 13) for image in images)


def titled(images: Iterable[RGBImage]) -> Iterator[RGBImage]:
    return (written(image, ["A video by", "Anna Marlow"], 50, 24) for image in images)


def snow(seconds: float) -> Iterator[RGBImage]:
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, WIDTH, 500), rng.integers(0, HEIGHT, 500)
    for index, image in enumerate(plain(seconds, (25, 30, 45))):
        image[(y + 9 * index) % HEIGHT, (x + index) % WIDTH] = 235
        image[(y + 9 * index) % HEIGHT, (x + index + 1) % WIDTH] = 235
        yield image


def grass(seconds: float) -> Iterator[RGBImage]:
    """Yield blades at random places, a few of them as close as the letters of a text."""
    (image,), rng = plain(1 / RATE, (40, 110, 40)), np.random.default_rng(3)
    for top in range(0, HEIGHT, 12):
        image[top : top + 12, rng.integers(0, WIDTH, 15)] = 200
    return iter([image] * round(seconds * RATE))


def cartoon(seconds: float) -> Iterator[RGBImage]:
    """Yield a figure with outlines that walks through flat colors."""
    for index in range(round(seconds * RATE)):
        canvas = Image.new("RGB", (WIDTH, HEIGHT), (120, 190, 240))
        draw, x = ImageDraw.Draw(canvas), 20 + 3 * index % WIDTH
        draw.rectangle((0, 130, WIDTH, HEIGHT), (90, 170, 60))
        draw.ellipse((x, 40, x + 50, 150), (200, 90, 60), (0, 0, 0), 2)
        draw.ellipse((x + 12, 55, x + 22, 70), (255, 255, 255), (0, 0, 0), 2)
        yield np.asarray(canvas)


def faded(images: Iterable[RGBImage], seconds: float) -> Iterator[RGBImage]:
    """Return images that fade out."""
    frames = round(seconds * RATE)
    return ((image * (1 - index / frames)).astype(np.uint8) for index, image in enumerate(islice(images, frames)))


def dark(seconds: float) -> Iterator[RGBImage]:
    return ((image * 0.15).astype(np.uint8) for image in action(seconds))


def bars(left: float, width: float) -> Iterator[RGBImage]:
    image = np.full((HEIGHT, WIDTH, 3), 100, np.uint8)
    image[:, round(WIDTH * (left + 7 * width)) :] = 0 if left == 0 else 100
    for number, color in enumerate(BARS):
        image[:130, round(WIDTH * (left + number * width)) : round(WIDTH * (left + (number + 1) * width))] = color
    return iter([image] * 3 * RATE)


def segments_of(path: Path, *parts: Iterable[RGBImage]) -> tuple[Segment, ...]:
    return segments_in(videos.write_video(path / "video.mp4", chain(*parts), rate=RATE))


def segments_in(video: Path, **options: Any) -> tuple[Segment, ...]:
    reader = VideoReader(video, ReaderSettings(**options))
    for _ in reader:
        pass
    return reader.segments


def ranges(segments: Iterable[Segment], kind: str) -> list[tuple[float, float]]:
    return [(segment.start, segment.end) for segment in segments if segment.kind == kind]


@pytest.mark.parametrize(
    "make",
    [cards, scrolling, slow, partial(cards, color=(20, 40, 90)), partial(scrolling, color=(90, 20, 20))],
    ids=["cards", "scrolling", "slow background", "cards over blue", "scrolling over red"],
)
def test_credits_at_both_ends_are_found(tmp_path: Path, make: Any) -> None:
    segments = segments_of(tmp_path, make(9), action(24), make(12))
    assert ranges(segments, "opening_credits") == [pytest.approx((0, 9), abs=1.5)]
    assert ranges(segments, "end_credits") == [pytest.approx((33, 45), abs=1.5)]


def test_a_scene_after_the_credits_is_not_part_of_them(tmp_path: Path) -> None:
    segments = segments_of(tmp_path, action(20), scrolling(10), action(3, seed=1))
    assert ranges(segments, "end_credits") == [pytest.approx((20, 30), abs=1.5)]
    assert not ranges(segments, "opening_credits")


LIKE_CREDITS = {
    "snow": lambda: snow(8),
    "grass": lambda: grass(8),
    "a dark scene": lambda: dark(8),
    "fades": lambda: chain.from_iterable(faded(action(3, seed), 3) for seed in range(3)),
    "a cartoon": lambda: cartoon(8),
    "subtitles": lambda: subtitled(action(8)),
    "subtitles of a cartoon": lambda: subtitled(cartoon(8)),
    "subtitles of a dark scene": lambda: subtitled(dark(8)),
    "a title over action": lambda: titled(action(8)),
    "one card": lambda: cards(4),
}


@pytest.mark.parametrize("make", LIKE_CREDITS.values(), ids=LIKE_CREDITS)
def test_scenes_that_resemble_credits_are_not_credits(tmp_path: Path, make: Any) -> None:
    segments = segments_of(tmp_path, make(), action(20), make())
    assert {segment.kind for segment in segments} <= {"black"}


def test_slides_have_no_credits(tmp_path: Path) -> None:
    assert segments_of(tmp_path, cards(30, (40, 60, 80))) == ()


def test_a_part_of_a_video_has_credits_only_at_the_ends_of_the_video(tmp_path: Path) -> None:
    images = chain(cards(12), action(10), cards(8), action(30), scrolling(20))
    video = videos.write_video(tmp_path / "video.mp4", images, rate=RATE)

    def part(start: float, end: float | None) -> tuple[Segment, ...]:
        return segments_in(video, start=start, end=end)

    assert ranges(part(0, 22), "opening_credits") == [pytest.approx((0, 12), abs=1.5)]
    assert not ranges(part(0, 22), "end_credits")
    assert not ranges(part(15, 60), "opening_credits")
    assert not ranges(part(15, 60), "end_credits")
    (credits,) = (segment for segment in part(50, None) if segment.kind == "end_credits")
    assert (credits.start, credits.end) == pytest.approx((60, 80), abs=1.5)
    assert (credits.start_frame / RATE, credits.end_frame / RATE) == pytest.approx((credits.start, credits.end))


def test_black_of_half_a_second_is_found_to_the_frame(tmp_path: Path) -> None:
    segments = segments_of(tmp_path, action(5), plain(0.5), action(5, 1), plain(0.25), dark(2), plain(2, (3, 3, 3)))
    assert segments == (Segment("black", 40, 44, 5.0, 5.5), Segment("black", 102, 118, 12.75, 14.75))


@pytest.mark.parametrize(("left", "width"), [(0, 1 / 7), (0, 1 / 8), (1 / 8, 3 / 28)], ids=["SMPTE", "EBU", "HD"])
def test_color_bars_are_found_to_the_frame(tmp_path: Path, left: float, width: float) -> None:
    segments = segments_of(tmp_path, bars(left, width), action(6))
    assert segments == (Segment("bars", 0, 24, 0.0, 3.0),)


def test_silence_is_found_where_there_is_sound_if_asked_for(tmp_path: Path) -> None:
    samples = videos.tone(10).samples.copy()
    samples[4 * 48000 : int(5.5 * 48000)] //= 10_000
    samples[8 * 48000 : int(8.7 * 48000)] = 0
    video = videos.write_video(tmp_path / "video.mkv", action(13), rate=RATE, sound=videos.Sound(samples))

    def silence(path: Path, **options: Any) -> list[tuple[float, float]]:
        segments = segments_in(path, **options)
        for segment in segments:
            assert (segment.start_frame, segment.end_frame) == (segment.start * RATE, segment.end * RATE)
        return ranges(segments, "silence")

    assert silence(video) == []
    near = 2 / RATE  # whole frames; codecs begin and end a little late
    assert silence(video, silence=True) == [pytest.approx((4, 5.5), abs=near), pytest.approx((10, 13), abs=near)]
    assert silence(video, silence=True, start=5.0, end=11.5) == [pytest.approx((10, 11.5), abs=near)]
    mute = videos.write_video(tmp_path / "mute.mkv", action(3), rate=RATE)
    assert silence(mute, silence=True) == []


def test_in_a_small_video_a_fence_is_not_credits(tmp_path: Path) -> None:
    plain_image = np.full((144, 176, 3), 90, np.uint8)
    fence = plain_image.copy()
    fence[40:80, ::6] = 220
    segments = segments_of(tmp_path, [plain_image] * 14 * RATE, [fence] * 8 * RATE)
    assert not any(segment.is_credits for segment in segments)


def test_credits_of_a_video_with_a_high_dynamic_range_are_found(tmp_path: Path) -> None:
    coded = cache(lambda content: hdr_codes(np.frombuffer(content, np.uint8).reshape(HEIGHT, WIDTH, 3), "pq"))
    images = chain(plain(33, (90, 60, 30)), cards(21))  # a third as long, at 24 frames per second
    noise = np.random.default_rng(0).normal(0, 0.002, (HEIGHT, WIDTH, 3))
    video = write_hdr(tmp_path / "video.mkv", (coded(image.tobytes()) + noise for image in images), "pq")
    assert ranges(segments_in(video), "end_credits") == [pytest.approx((11, 18), abs=1)]


# Looks at frames, two a second, after 30 seconds of a film: T is text, b blank and . other; cuts in seconds; and
# credits, if there are any.
CREDITS: dict[str, tuple[str, list[float], tuple[float, float] | None]] = {
    "six seconds with three of text": ("TbTbTbTbTbbT", [], (30, 36)),
    "less than six seconds": ("TbTbTbTbTbT", [], None),
    "less than three seconds of text": ("TbbTbbTbbTbbbT", [], None),
    "pauses without text of eight seconds": ("TTT" + 16 * "b" + "TTT", [], (30, 41)),
    "longer ones": ("TTT" + 17 * "b" + "TTT", [], None),
    "pauses with figures of two and a half seconds": ("TTTT.....TTTT", [], (30, 36.5)),
    "longer ones with figures": ("TTTT......TTTT", [], None),
    "cuts within three seconds": (14 * "T" + 16 * ".", [27, 39.5], (27, 39.5)),
    "cuts that are farther": (14 * "T" + 16 * ".", [26.5, 40], (30, 37)),
}


@pytest.mark.parametrize(("looks", "cuts", "expected"), CREDITS.values(), ids=CREDITS)
def test_credits_are_long_enough_have_text_without_long_pauses_and_begin_and_end_with_a_cut_that_is_near(
    looks: str, cuts: list[float], expected: tuple[float, float] | None
) -> None:
    kinds = [{"T": "text", "b": "blank", ".": "other"}[sign] for sign in 60 * "." + looks]
    times = [i / 2 for i in range(len(kinds) + 1)]
    starts = sorted({0, *(int(2 * cut) for cut in cuts), len(kinds)})
    segments = credit_segments([Look(i, kind) for i, kind in enumerate(kinds)], starts, times, times[-1])
    assert [(segment.start, segment.end) for segment in segments] == ([expected] if expected else [])
