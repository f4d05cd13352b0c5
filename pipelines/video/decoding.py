"""Opening a video and decoding each of its frames once, in order, with its time."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from itertools import chain
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from types import TracebackType
from typing import Any, TypeVar

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipelines.errors import VideoError
from pipelines.processes import cores
from pipelines.scenes import VideoFacts
from pipelines.video.runs import Damage, DecodedRuns, decode, new_beginnings

# FFmpeg's chatter about damaged packets would reach the user's terminal; what matters of it becomes a warning here.
logging.getLogger("libav").setLevel(logging.CRITICAL)

# Demuxers that make "video" of a picture or of plain text.
_STILL_FORMATS = ("image2", "tty")

# A clock that steps back further than this, in seconds, was set anew; less is a flaw of single timestamps.
_CLOCK_NOISE = 0.5

# Each thread holds frames of its own, and beyond this many they wait for Python's lock more than they bring.
_MOST_THREADS = 4

Seen = TypeVar("Seen")


class Film:
    """An open video: iterate :meth:`frames` once, then read :attr:`facts` and :attr:`warnings`.

    Attributes:
        width, height: in pixels, as the container says.
        exact: afterwards, whether the pictures are for certain those that one thread gives.
        declared_duration: seconds according to the container, or None.
        pixel_aspect: width of a pixel divided by its height.
        rotation: clockwise quarter turns (0 to 3) that show the picture upright; known after the first frame.
    """

    def __init__(self, path: Path, threads: int | None = None) -> None:
        """Open ``path``, to be decoded by at most so many threads (None: as fits the machine).

        Raises:
            VideoError: one line, when there is no such file, it is a folder, empty, a picture, sound only, or not a
                video at all.
        """
        self.path = path
        self.warnings: list[str] = []
        self.rotation = 0
        self.exact = True
        self._container = open_container(path)
        try:
            self._stream = picture_stream(path, self._container)
        except VideoError:
            self._container.close()
            raise
        self._threads = min(threads or cores(), _MOST_THREADS)
        self._decoding: Generator[Any, None, None] | None = None
        self.width, self.height = self._stream.width, self._stream.height
        rate = self._stream.average_rate or self._stream.guessed_rate or Fraction(25)
        self.frame_rate = float(rate) if 0 < rate <= 1000 else 25.0
        aspect = self._stream.sample_aspect_ratio
        self.pixel_aspect = float(aspect) if aspect and 0.1 <= aspect <= 10 else 1.0
        self.declared_duration = _declared_duration(self._container, self._stream)
        self._facts: VideoFacts | None = None

    def __enter__(self) -> Film:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._decoding is not None:
            self._decoding.close()  # its threads read the container
        self._container.close()

    @property
    def facts(self) -> VideoFacts:
        """What was found; there only when :meth:`frames` has run to its end."""
        if self._facts is None:
            raise RuntimeError("the facts of a film are known only when all its frames have been read")
        return self._facts

    def frames(
        self, look: Callable[[Sequence[VideoFrame]], Sequence[Any]] = lambda frames: frames, waiting: int = 64
    ) -> Iterator[tuple[int, float, Any]]:
        """Decode the film.

        Args:
            look: what to make of each of some pictures that follow each other; called in the thread that decodes
                them, with the film's first ones before any other.
            waiting: so many pictures of each thread may wait to be taken.

        Yields:
            ``(index, time, seen)``: index from 0, time in seconds from the film's first frame, strictly increasing,
            from presentation timestamps. Frames without one follow each other by their lengths or the nominal rate.

        Raises:
            VideoError: when not one frame can be decoded.
        """
        nominal = 1.0 / self.frame_rate
        tick = self._stream.time_base or Fraction(0)
        tick_seconds = float(tick)
        index, last, offset = -1, -nominal, 0.0
        first: float | None = None
        end = 0.0
        width = height = 0

        def stamped(frames: Sequence[VideoFrame]) -> list[tuple[int | None, int, Any]]:
            nonlocal width, height
            if not width:
                self.rotation = (-round(frames[0].rotation / 90)) % 4
                width, height = frames[0].width, frames[0].height
            return [(frame.pts, frame.duration, seen) for frame, seen in zip(frames, look(frames), strict=True)]

        damage = Damage()
        self._decoding = self._decode(stamped, damage, waiting)
        for pts, ticks, seen in self._decoding:
            index += 1
            if pts is None:
                time = end
            else:
                stamp = pts * tick.numerator / tick.denominator
                first = stamp if first is None else first
                time = round(stamp - first + offset, 6)
                if time <= last:  # after its predecessor all the same; where recordings were joined, a new clock
                    if last - time > _CLOCK_NOISE:
                        offset += last + nominal - time
                    time = last + nominal
            length = ticks * tick_seconds
            # A last frame that claims to last for ever (some recorders write this) must not stretch the film.
            end = round(time + (length if 0.0 < length <= 10.0 else nominal), 6)
            last = time
            yield index, time, seen
        if index < 0:
            raise VideoError(f"{self.path}: no frame of it can be decoded; it may be damaged")
        if self.rotation % 2:
            width, height = height, width
        self._facts = VideoFacts(str(self.path), width, height, end, index + 1, self.frame_rate)
        if damage.places:
            self.warnings.append(
                f"{self.path}: is damaged in {damage.places} place(s); what could be read of it was used"
            )
        self._note_missing_end(end, first or 0.0)

    def _decode(
        self, look: Callable[[Sequence[VideoFrame]], Sequence[Seen]], damage: Damage, waiting: int
    ) -> Generator[Seen, None, None]:
        packets = self._packets(damage)
        begins_anew = new_beginnings(self._stream)
        decoder = self._stream.codec_context
        if self._threads == 1 or begins_anew is None or not self.path.is_file():
            decoder.thread_type, decoder.thread_count = "AUTO", self._threads
            yield from chain.from_iterable(decode(packets, decoder, look, damage))
            return
        others = [open_container(self.path) for _ in range(1, self._threads)]
        try:
            # Opened like this, all decoders know of the stream what the first one does.
            decoders = [decoder, *(picture_stream(self.path, other).codec_context for other in others)]
            for decoder in decoders:
                decoder.thread_count = 1
            runs = DecodedRuns(packets, decoders, begins_anew, look, damage, waiting)
            with closing(iter(runs)) as seen:
                yield from seen
            self.exact = runs.exact
        finally:
            for other in others:
                other.close()

    def _packets(self, damage: Damage) -> Iterator[Packet[VideoStream]]:
        try:
            for packet in self._container.demux(self._stream):
                if packet.size:  # an empty one would tell the decoder that the film has ended
                    yield packet
        except av.FFmpegError:  # the container breaks off here: what came before it counts
            damage.note()

    def _note_missing_end(self, end: float, first: float) -> None:
        declared = self.declared_duration
        if declared is not None and self._container.format.name.startswith("matroska"):
            declared -= first  # it counts from time 0, not from the first frame
        if declared is not None and declared - end > max(1.0, 0.02 * declared):
            self.warnings.append(
                f"{self.path}: ends early: {end:.1f} s of the {declared:.1f} s it declares could be read"
            )


def open_container(path: Path) -> InputContainer:
    """A film's file, opened.

    Raises:
        VideoError: one line, when there is no such file, or it is no video.
    """
    try:
        status = path.stat()
        if S_ISDIR(status.st_mode):
            raise VideoError(f"{path}: is a folder, not a video")
        if S_ISREG(status.st_mode) and status.st_size == 0:
            raise VideoError(f"{path}: is empty")
        # "file:" keeps FFmpeg from reading a name with a colon as a protocol.
        container = av.open(f"file:{path}", metadata_errors="replace")
    except FileNotFoundError as error:
        raise VideoError(f"{path}: no such file") from error
    except PermissionError as error:
        raise VideoError(f"{path}: may not be read (permission denied)") from error
    except (av.FFmpegError, OSError) as error:
        raise VideoError(f"{path}: not a video that can be read ({_reason(error)})") from error
    formats = container.format.name.split(",")
    if any(name in _STILL_FORMATS or name.endswith("_pipe") for name in formats):
        container.close()
        what = "plain text" if "tty" in formats else "a still image"
        raise VideoError(f"{path}: is {what}, not a video")
    return container


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def picture_stream(path: Path, container: InputContainer) -> VideoStream:
    """The film's moving pictures, of the streams in its file.

    Raises:
        VideoError: one line, when there are none that can be decoded.
    """
    # A cover picture in a sound file is a video stream too.
    streams = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if not streams:
        raise VideoError(f"{path}: has no moving pictures")
    known = [s for s in streams if s.codec_context is not None]
    if not known:
        raise VideoError(f"{path}: its video codec is not one that this FFmpeg decodes")
    return max(known, key=lambda s: (bool(s.disposition & Disposition.default), s.width * s.height))


def _declared_duration(container: InputContainer, stream: VideoStream) -> float | None:
    # Matroska keeps the length of a track in a tag; that of the file may be one of longer sound.
    tag = re.fullmatch(r"(\d+):(\d+):(\d+(?:\.\d+)?)", stream.metadata.get("DURATION", ""))
    if tag is not None:
        return int(tag[1]) * 3600 + int(tag[2]) * 60 + float(tag[3])
    if stream.duration is not None and stream.time_base is not None and stream.duration > 0:
        return float(stream.duration * stream.time_base)
    if container.duration is not None and container.duration > 0:
        return container.duration / 1_000_000
    return None
