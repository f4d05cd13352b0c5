"""Opening a video file with FFmpeg: streams, packets, header facts, and checks that scenes belong to the video."""

from __future__ import annotations

import logging
import math
import re
import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple, TypeVar, cast

import av
from av.audio.codeccontext import AudioCodecContext
from av.audio.layout import AudioLayout
from av.container import InputContainer
from av.format import Flags as ContainerFlags
from av.packet import Packet
from av.stream import Disposition, Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipelines.errors import VideoError
from pipelines.scenes import MOST_SOUND, SceneData
from pipelines.video.inputs import fingerprint

# FFmpeg's messages about damaged packets would reach the user's terminal; damage is reported as a warning here.
logging.getLogger("libav").setLevel(logging.CRITICAL)

# Metadata that is not UTF-8 is not an error: PyAV 19 has no such option, and keeps the bytes.
_METADATA: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}

# Without demuxers that read other files that a file names, perhaps without end, or the network, and without that of
# tags, whose time is quadratic in their number.
_FORMATS = ",".join(sorted(av.formats_available - set("hls applehttp dash imf concat sdp ffmetadata".split())))  # noqa: SIM905

INDEXED = ("mov", "matroska")
"""Demuxers that find a time by an index, and whose clock never restarts. Other formats are read from the beginning."""

# Gaps of decoding timestamps, in seconds, that FFmpeg's command line treats as a new clock (-dts_delta_threshold), and
# as errors in formats whose clock never restarts (-dts_error_threshold).
_NEW_CLOCK, _WRONG_CLOCK = 10.0, 30 * 3600.0

# Larger frames (16K has 133 million pixels) mean a damaged or malicious header: one would take a gigabyte.
_MOST_PIXELS = 200_000_000

S = TypeVar("S", bound=Stream)


def open_container(path: Path) -> InputContainer:
    """Open a video file. Raise VideoError, one line, if there is no such file, or it is not a video."""
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            raise VideoError(f"{path}: is a {'folder' if S_ISDIR(status.st_mode) else 'pipe or device'}, not a video")
        if status.st_size == 0:
            raise VideoError(f"{path}: is empty")
        # "file:" prevents FFmpeg from taking a name with a colon for a protocol. With the first option, the streams
        # of an MPEG-TS program continue if they get new ids, as between two broadcasts.
        options = {"merge_pmt_versions": "1", "format_whitelist": _FORMATS}
        container: InputContainer = av.open(f"file:{path}", options=options, **_METADATA)
    except FileNotFoundError as error:
        raise VideoError(f"{path}: no such file") from error
    except (av.FFmpegError, OSError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        hint = "; of a playlist name one of its files" if isinstance(error, av.ArgumentError) else ""
        raise VideoError(f"{path}: not a video that can be read ({reason}{hint})") from error
    formats = container.format.name.split(",")
    if any(name in ("image2", "tty") or name.endswith("_pipe") for name in formats):
        container.close()
        raise VideoError(f"{path}: is {'plain text' if 'tty' in formats else 'a still image'}, not a video")
    return container


def video_stream(path: Path, container: InputContainer) -> VideoStream:
    """Return the video stream of a file to decode: the default one, or else the largest, and no still image (as in
    AVIF) beside a longer stream. Raise VideoError, one line, if none can be decoded."""
    # The cover image of a sound file is a video stream, too.
    streams = [s for s in container.streams.video if s.codec_context and not s.disposition & Disposition.attached_pic]
    if not streams:
        raise VideoError(f"{path}: has no video stream of a known codec")
    stream = max(streams, key=lambda s: (s.frames != 1, bool(s.disposition & Disposition.default), s.width * s.height))
    if stream.width * stream.height > _MOST_PIXELS:
        raise VideoError(f"{path}: has frames of {stream.width} x {stream.height} pixels, too large to be read")
    return stream


def program_tracks(container: InputContainer, stream: Stream) -> list[Stream]:
    """Return the tracks in the program of a stream, in their order; in formats without programs all."""
    if container.format.name != "mpegts":
        return list(container.streams)
    level, described = av.logging.get_level(), cast(Any, container)  # PyAV's type hints lack its description
    av.logging.set_level(av.logging.INFO)
    try:  # PyAV has only FFmpeg's description of programs
        programs = re.split(r"(?m)^  (?:Program \d|No Program)", described.dumps_format())
    finally:
        av.logging.set_level(level)
    members = ({int(index) for index in re.findall(r"(?m)^  Stream #0:(\d+)", program)} for program in programs)
    program = next((indices for indices in members if stream.index in indices), None)
    return [track for track in container.streams if program is None or track.index in program]


# --- packets ----------------------------------------------------------------------------------------------------------


class ForwardJumps:
    """Removes forward jumps of the clock from the timestamps of several streams, as FFmpeg's command line does: gaps of
    more than ``longest`` seconds after a packet. The length of each is appended to ``lengths``."""

    def __init__(self, longest: float, lengths: list[float]) -> None:
        self._longest, self._lengths = longest, lengths
        self.shifts = [0.0]  # seconds to subtract: before the first jump, and from each jump on
        self._shift_of: dict[int, float] = {}  # by stream
        self._end_of: dict[int, float] = {}

    def shift(self, stream: int, stamp: float, duration: float) -> float:
        """Return the seconds to subtract from a stream's next packet, given its decoding timestamp and duration."""
        shift, end = self._shift_of.get(stream, 0.0), self._end_of.get(stream)
        if end is not None and stamp - shift - end > self._longest:
            # Use the shift of another stream if it fits, so that sound stays with its frames.
            fitting = [earlier for earlier in self.shifts if abs(stamp - earlier - end) <= self._longest]
            if fitting:
                shift = fitting[-1]
            else:
                self._lengths.append(stamp - end - shift)
                shift = stamp - end
                self.shifts.append(shift)
            self._shift_of[stream] = shift
        self._end_of[stream] = stamp - shift + duration
        return shift


def demux(container: InputContainer, *streams: S, jumps: list[float] | None = None) -> Iterator[Packet[S]]:
    """Yield the packets of some streams in the order of the file, each stream ended by an empty packet, without the
    `ForwardJumps` of the clock, appended to ``jumps``. Raise av.FFmpegError for a damaged container."""
    packets: Any = container.demux(streams)
    flags: Any = container.format.flags  # an int; PyAV's type hint is wrong
    longest = _NEW_CLOCK if flags & ContainerFlags.ts_discont.value else _WRONG_CLOCK
    forward_jumps = ForwardJumps(longest, [] if jumps is None else jumps)
    ticks = {s.index: float(s.time_base or 0) for s in container.streams}  # packet.time_base creates a fraction
    sparse = {s.index for s in container.streams.subtitles}  # a pause between lines is not a jump
    try:
        for packet in packets:
            index, tick = packet.stream_index, ticks.get(packet.stream_index, 0.0)
            if packet.dts is not None and tick:
                stamp, duration = packet.dts * tick, (packet.duration or 0) * tick
                shift = forward_jumps.shifts[-1] if index in sparse else forward_jumps.shift(index, stamp, duration)
                if shift:
                    shift_ticks = round(shift / tick)
                    packet.dts -= shift_ticks
                    packet.pts = None if packet.pts is None else packet.pts - shift_ticks
            yield packet
    except IndexError:
        # If streams appear after opening, as formats without a header allow, PyAV fails after the last packet.
        return


def layout_of(decoder: AudioCodecContext) -> AudioLayout:
    """Return the channel layout of a sound track; an order without a name becomes the usual one. Call it before the
    track is decoded: read twice, PyAV 18.1 frees such an order twice, and crashes."""
    layout = decoder.layout
    if " channels" not in layout.name:
        return layout
    decoder.layout = f"{layout.nb_channels}{'c' if layout.nb_channels <= 8 else 'C'}"  # C: unordered
    return decoder.layout


# --- facts ------------------------------------------------------------------------------------------------------------


def video_facts(container: InputContainer, stream: VideoStream, frame: VideoFrame) -> dict[str, Any]:
    """Return the fields of `VideoFacts` on sound, timecode, rates, and the shape and rotation of the first frame."""
    tracks, turns, aspect = container.streams.audio, orientation(frame).turns, pixel_aspect(stream)
    decoders = [track.codec_context for track in tracks if track.codec_context is not None]
    grid, average = stream.base_rate, stream.average_rate
    tags = [item for source in (container, *container.streams) for item in source.metadata.items()]
    return {
        "sound_tracks": min(len(tracks), MOST_SOUND),
        "sound_channels": min(sum(layout_of(d).nb_channels for d in decoders), MOST_SOUND) if decoders else None,
        "sound_rate": decoders[0].sample_rate if decoders else None,
        "base_rate": float(grid) if grid and average and grid != average else None,
        "start_timecode": next((value for key, value in tags if key.lower() == "timecode" and value), None),
        "pixel_aspect": None if aspect == 1 else round(float(1 / aspect if turns % 2 else aspect), 6),
        "rotation": 90 * turns or None,
    }


class Orientation(NamedTuple):
    """How to make a frame upright: mirror it if it is ``mirrored``, then turn it clockwise by so many quarters."""

    turns: int = 0
    mirrored: bool = False


def orientation(frame: VideoFrame) -> Orientation:
    """Return how to make a frame upright, from the display matrix of its container or codec."""
    matrix: Any = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return Orientation()
    a, b, _, c, d = struct.unpack_from("=5i", matrix)  # (x, y) is shown at (a x + c y, b x + d y), y downward
    return Orientation(round(math.atan2(-c, d) / (math.pi / 2)) % 4, mirrored=a * d < b * c)


def pixel_aspect(stream: VideoStream) -> Fraction:
    """Return the width of a stored pixel divided by its height; 1 if it is unknown or impossible."""
    aspect = stream.sample_aspect_ratio
    return Fraction(aspect) if aspect and 0.1 <= aspect <= 10 else Fraction(1)


# --- lengths ----------------------------------------------------------------------------------------------------------


def declared_end(container: InputContainer, stream: VideoStream, first: float = 0.0) -> float | None:
    """Return the seconds from the first frame, at ``first`` on the file's clock, to the declared end, or None."""
    is_matroska = container.format.name.startswith("matroska")
    start = first if is_matroska else 0.0  # it counts from time 0
    # The duration of a track of Matroska is in a tag; the duration of the file may come from longer sound.
    if tag := re.fullmatch(r"(\d+):(\d+):(\d+(?:\.\d+)?)", stream.metadata.get("DURATION", "")):
        return int(tag[1]) * 3600 + int(tag[2]) * 60 + float(tag[3]) - start
    if stream.duration is not None and stream.time_base and stream.duration > 0:
        return float(stream.duration * stream.time_base) - start
    return container.duration / av.time_base - start if container.duration and container.duration > 0 else None


def declared_length(video: Path) -> float | None:
    """Open a video for its `declared_end`. Raise VideoError if that fails."""
    with open_container(video) as container:
        stream = video_stream(video, container)
        return declared_end(container, stream, float((stream.start_time or 0) * (stream.time_base or 0)))


def check_same_video(video: Path, scenes: SceneData) -> None:
    """Raise VideoError if a file is not the scenes' video: it declares another length, or is shorter than their part.
    The length of a video with their fingerprint does not matter."""
    length, expected = declared_length(video), scenes.video.duration
    if length is None or abs(length - expected) <= length_tolerance(expected):
        return
    is_longer = scenes.settings.get("end") is not None and length > expected  # than the part that was read
    if not is_longer and (scenes.video.fingerprint is None or scenes.video.fingerprint != fingerprint(video)):
        raise VideoError(
            f"{video}: has {length:.1f} s, but the scenes are of a video with {expected:.1f} s; "
            "give the scenes.json of this video"
        )


def length_tolerance(length: float) -> float:
    """Return how many seconds the length of the same video may differ, by container and reader."""
    return max(1.0, 0.02 * length)
