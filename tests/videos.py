"""Small videos for tests: shots with known cuts, in which every image says which frame it is.

The upper part of an image is the texture of its shot; a strip along the bottom holds the number of the frame, one
bright or dark block a bit, so that it survives compression and scaling.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from fractions import Fraction
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pipelines.scenes import SceneData, Shot, group_shots
from pipelines.video.decoding import VideoDecoder
from pipelines.video.images import RGBImage


class Sound(NamedTuple):
    """Samples of one channel, int16, and how they are stored: the same in all channels."""

    samples: NDArray[np.int16]
    rate: int = 48000
    codec: str = "aac"
    layout: str = "stereo"


CUTS, FRAMES = (30, 61, 90), 120
"""Where new shots begin in a video of four, and its length."""
GROUPS = {"preset": "ultrafast", "crf": "12", "g": "12", "bf": "2", "x264-params": "scenecut=0"}
"""Options: a keyframe each 12 frames, and frames that are not in the order in which they are shown."""

_BITS = 12
_DARK, _BRIGHT = 40, 215


def images(
    frames: int, cuts: Sequence[int] = (), width: int = 160, height: int = 96, seed: int = 0, numbered: bool = True
) -> Iterator[RGBImage]:
    """Make the images of a video whose new shots begin at ``cuts``: (height, width, 3) uint8 RGB."""
    rng = np.random.default_rng(seed)
    texture = _texture(rng, width, height)
    for index in range(frames):
        if index in cuts:
            texture = _texture(rng, width, height)
        yield with_number(texture, index) if numbered else texture


def plain_images(frames: int, color: tuple[int, int, int], width: int, height: int) -> Iterator[RGBImage]:
    """Make the same image of one color again and again."""
    yield from (np.full((height, width, 3), color, np.uint8) for _ in range(frames))


def with_number(image: RGBImage, number: int) -> RGBImage:
    """Return the image with a number in its strip."""
    numbered = image.copy()
    height, width = image.shape[:2]
    strip = numbered[height - max(1, height // 6) :]
    for bit in range(_BITS):
        strip[:, width * bit // _BITS : width * (bit + 1) // _BITS] = _BRIGHT if number >> bit & 1 else _DARK
    return numbered


def number_of(image: RGBImage) -> int:
    """Read the number in the strip of an image."""
    height, width = image.shape[:2]
    strip, number, block = image[-max(1, height // 12) :], 0, width / _BITS
    for bit in range(_BITS):
        left, right = int(block * (bit + 0.25)), int(block * (bit + 0.75))
        number |= int(strip[:, left : max(left + 1, right)].mean() > (_DARK + _BRIGHT) / 2) << bit
    return number


def write_video(
    path: Path,
    shown: Iterable[RGBImage],
    rate: float = 24,
    codec: str = "libx264",
    pixel_format: str = "yuv420p",
    times: Sequence[float] | None = None,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    pixel_aspect: Fraction | None = None,
    full_range: bool = False,
    sound_seconds: float = 0.0,
    sound: Sound | None = None,
    container_format: str | None = None,
    metadata: dict[str, str] | None = None,
    ticks: Fraction = Fraction(1, 1000),
    sound_tracks: int = 1,
) -> Path:
    """Encode images, and sound or so many seconds of a tone. ``times`` are presentation times in seconds, if they are
    not regular, on a clock of ``ticks`` seconds."""
    sound = tone(sound_seconds) if sound_seconds else sound
    if options is None:
        options = {"preset": "ultrafast", "crf": "12"} if codec == "libx264" else {}
    exact = Fraction(rate).limit_denominator(1001)
    clock = 1 / exact if times is None else ticks
    with av.open(str(path), "w", format=container_format, container_options=container_options or {}) as container:
        container.metadata.update(metadata or {})
        stream = container.add_stream(codec, rate=exact, options=options)
        stream.codec_context.thread_count = 1
        if sound is not None:  # before anything is written
            tracks = [
                container.add_stream(sound.codec, rate=sound.rate, layout=sound.layout) for _ in range(sound_tracks)
            ]
        if times is not None:
            stream.codec_context.time_base = stream.time_base = clock
        for index, image in enumerate(shown):
            if index == 0:
                stream.height, stream.width = image.shape[:2]
                stream.pix_fmt = pixel_format
                if pixel_aspect is not None:
                    stream.codec_context.sample_aspect_ratio = pixel_aspect
                if full_range:
                    stream.codec_context.color_range = 2
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
            frame = frame.reformat(format=pixel_format, **({"dst_color_range": 2} if full_range else {}))
            frame.pts = index if times is None else round(times[index] / clock)
            frame.time_base = clock
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        if sound is not None:
            for track in tracks:
                _encode_sound(container, track, sound)
    return path


def write_slideshow(path: Path, shown: Sequence[RGBImage], seconds: Sequence[float]) -> Path:
    """Each image as one frame that lasts so many seconds, as its packet and the container declare."""
    times, options = [sum(seconds[:i]) for i in range(len(shown))], {"preset": "ultrafast", "crf": "12", "g": "1"}
    plain = write_video(path.with_name(f"plain-{path.name}"), shown, times=times, options=options)
    with av.open(str(plain)) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        packets = [packet for packet in source.demux(video=0) if packet.size]
        for packet, length in zip(packets, seconds, strict=True):
            packet.stream, packet.duration = stream, round(length / packet.time_base)
            target.mux(packet)
    return path


def write_unsampled_video(path: Path) -> Path:
    """Write a video with uncompressed frames, most of which no part of its fingerprint samples."""
    return write_video(path, images(40, (20,), 320, 240), codec="rawvideo")


def change_unsampled(path: Path) -> None:
    """Make a frame of such a video gray in place."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 15 * 7 + 2**17)
        file.write(bytes([128]) * 40_000)


def tone(seconds: float) -> Sound:
    wave = 0.1 * np.sin(np.arange(int(48000 * seconds)) / 48000 * 440 * 2 * np.pi)
    return Sound((wave * 32767).astype(np.int16))


def write_sound(path: Path, codec: str = "aac") -> Path:
    """Write a file of sound without video."""
    with av.open(str(path), "w") as container:
        _encode_sound(container, container.add_stream(codec, rate=48000), tone(1.0))
    return path


def write_sound_with_cover(path: Path) -> Path:
    """Write an MP3 with a cover image in its ID3 tag."""
    write_sound(path, "libmp3lame")
    cover = BytesIO()
    Image.fromarray(next(images(1))).save(cover, "JPEG")
    content = b"\0image/jpeg\0\x03\0" + cover.getvalue()
    frame = b"APIC" + struct.pack(">I", len(content)) + b"\0\0" + content
    size = bytes(len(frame) >> shift & 0x7F for shift in (21, 14, 7, 0))
    path.write_bytes(b"ID3\x03\0\0" + size + frame + path.read_bytes())
    return path


def write_still(path: Path) -> Path:
    """Write an image: PNG, JPEG, ... by the suffix."""
    Image.fromarray(next(images(1))).save(path)
    return path


def write_huge_frame(path: Path) -> Path:
    """Write a GIF whose header promises frames of a gigabyte."""
    content = BytesIO()
    Image.new("P", (2, 2)).save(content, "GIF")
    header = bytearray(content.getvalue())
    struct.pack_into("<HH", header, 6, 16_000, 16_000)
    path.write_bytes(header)
    return path


def rotated(source: Path, path: Path, quarter_turns: int, mirrored: bool = False) -> Path:
    """Copy an MP4 with the mark that phones write: mirror it left to right, turn it clockwise by so many quarters."""
    content = bytearray(source.read_bytes())
    cos, sin = ((1, 0), (0, 1), (-1, 0), (0, -1))[quarter_turns]
    start = content.index(b"tkhd") + 4 + 40  # a version 0 header: the matrix follows 40 bytes of other fields
    matrix = (-cos if mirrored else cos, -sin if mirrored else sin, 0, -sin, cos, 0, 0, 0)
    content[start : start + 36] = struct.pack(">9i", *(value << 16 for value in matrix), 1 << 30)
    path.write_bytes(content)
    return path


def truncated(source: Path, path: Path, share: float) -> Path:
    """Write the first part of a file."""
    content = source.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def damaged(source: Path, path: Path, start: float = 0.4, end: float = 0.6) -> Path:
    """Write a copy with noise in the middle of the file."""
    content = bytearray(source.read_bytes())
    a, b = int(len(content) * start), int(len(content) * end)
    content[a:b] = np.random.default_rng(0).integers(0, 256, b - a).astype(np.uint8).tobytes()
    path.write_bytes(content)
    return path


def joined(sources: Sequence[Path], path: Path) -> Path:
    """Write the bytes of one file after the bytes of another, as some recorders join what they wrote."""
    path.write_bytes(b"".join(source.read_bytes() for source in sources))
    return path


def remuxed(path: Path, *sources: Path, tag: str | None = None, attached: Sequence[Path] = ()) -> Path:
    """Write the tracks of several files in one, with attached images and other files in Matroska."""
    with ExitStack() as stack:
        output = stack.enter_context(av.open(str(path), "w"))
        for file in attached:
            output.add_attachment(file.name, "image/jpeg" if file.suffix == ".jpg" else "font/ttf", file.read_bytes())
        packets = []
        for source in sources:
            container = stack.enter_context(av.open(str(source)))
            streams = [output.add_stream_from_template(stream) for stream in container.streams]
            for stream in streams:
                if tag is not None:
                    stream.codec_context.codec_tag = tag
            packets += [(packet, streams[packet.stream.index]) for packet in container.demux() if packet.size]
        for packet, stream in sorted(packets, key=lambda pair: float(pair[0].dts * pair[0].time_base)):
            packet.stream = stream
            output.mux(packet)
    return path


def decoded(path: Path) -> list[RGBImage]:
    """Return all images of a video as FFmpeg converts them to RGB."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def numbers(path: Path) -> list[int]:
    """Read the number that each frame of a video has in its strip."""
    return [number_of(image) for image in decoded(path)]


def timed(path: Path) -> tuple[list[float], VideoDecoder]:
    """Return the times of all frames of a video, and its decoder, which has read them."""
    with VideoDecoder(path) as video:
        return [time for _, time, _ in video.frames()], video


def scenes_of(path: Path, cuts: tuple[int, ...] = CUTS) -> SceneData:
    """Return scenes that begin at ``cuts``, with the times that decoding gives."""
    times, video = timed(path)
    facts = video.facts
    borders = [0, *cuts, facts.frames]
    starts = [*times, facts.duration]
    shots = tuple(Shot(i, a, b, starts[a], starts[b], 0.5) for i, (a, b) in enumerate(pairwise(borders)))
    return SceneData(facts, {}, shots, group_shots(shots, range(len(shots))))


def _texture(rng: np.random.Generator, width: int, height: int) -> RGBImage:
    colors = rng.integers(20, 236, (4, 6, 3)).astype(np.uint8)
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 6 // width
    return colors[rows][:, columns]


def _encode_sound(container: av.container.OutputContainer, stream: av.AudioStream, sound: Sound) -> None:
    for start in range(0, len(sound.samples), sound.rate // 10):
        part = np.repeat(sound.samples[start : start + sound.rate // 10], stream.channels)[None]
        frame = av.AudioFrame.from_ndarray(part, format="s16", layout=sound.layout)
        frame.sample_rate, frame.pts, frame.time_base = sound.rate, start, Fraction(1, sound.rate)
        container.mux(stream.encode(frame))
    container.mux(stream.encode())
