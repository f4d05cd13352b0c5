"""Video decoding with PyAV: every frame once, in order, with its presentation time."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from fractions import Fraction
from itertools import chain, islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Self, TypeVar

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
from pipelines.files import is_file
from pipelines.processes import cores
from pipelines.scenes import SceneList, VideoFacts
from pipelines.video.inputs import fingerprint
from pipelines.video.runs import Damage, ParallelDecoder, decode, frames_at_a_time, restart_test

# FFmpeg's messages about damaged packets would reach the user's terminal; damage is reported as a warning here.
logging.getLogger("libav").setLevel(logging.CRITICAL)

# Metadata that is not UTF-8 is no error: PyAV 19 has no such option, and keeps the bytes.
_METADATA: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}

# FFmpeg's order of channels.
_CHANNELS = "FL FR FC LFE BL BR FLC FRC BC SL SR TC TFL TFC TFR TBL TBC TBR DL DR WL WR SDL SDR LFE2".split()  # noqa: SIM905

# Demuxers that read a still image or plain text as video.
_STILL_FORMATS = ("image2", "tty")

# Timestamps that step back by more than this, in seconds, start a new clock; less is an error of single timestamps.
CLOCK_NOISE = 0.5

# Times that differ by less, in seconds, are equal: timestamps are rounded to microseconds.
_SAME_TIME = 1e-6

# Gaps of decoding timestamps, in seconds, that FFmpeg's command line treats as a new clock (-dts_delta_threshold), and
# as errors in formats whose clock never restarts (-dts_error_threshold).
_NEW_CLOCK = 10.0
_WRONG_CLOCK = 30 * 3600.0

# Larger frames (16K has 133 million pixels) mean a damaged or malicious header: one would take a gigabyte.
_MOST_PIXELS = 200_000_000

# Each thread holds frames in memory, and more threads than this mostly wait for the global interpreter lock.
_MOST_THREADS = 4

Result = TypeVar("Result")
S = TypeVar("S", bound=Stream)


class VideoDecoder:
    """An open video: iterate :meth:`frames` once, then read :attr:`facts` and :attr:`warnings`.

    Attributes:
        container, stream: of PyAV.
        kind: the first name of its demuxer: ``mov`` for MP4 and related formats.
        width, height: in pixels, as the container says.
        batch_size: maximum number of frames that :meth:`frames` transforms together.
        exact: after decoding, whether the frames are certainly the same as with one thread.
        declared_duration: seconds according to the container, or None.
        pixel_aspect: pixel width divided by pixel height.
        rotation: clockwise quarter turns (0 to 3) that make the frame upright; known after the first frame.
    """

    def __init__(
        self, path: Path, threads: int | None = None, start: float | None = None, end: float | None = None
    ) -> None:
        """Open ``path``.

        Args:
            path: the video file.
            threads: maximum number of decoding threads; None: the number of cores. Never more than four.
            start: seconds from the video's first frame to the first frame to yield; None is the beginning.
            end: seconds up to the first frame that is not yielded; None is the end.

        Raises:
            VideoError: one line, when there is no such file, or it is a folder, empty, a still image, sound only, or
                not a video.
        """
        self.path = path
        self.warnings: list[str] = []
        self.rotation = 0
        self.exact = True
        self.container = open_container(path)
        try:
            self.stream = video_stream(path, self.container)
        except VideoError:
            self.container.close()
            raise
        self.kind = self.container.format.name.split(",")[0]
        self._threads = min(threads or cores(), _MOST_THREADS)
        self._range = (0.0 if start is None else start, math.inf if end is None else end)
        self._decoding: Generator[Any, None, None] | None = None
        # Some streams do not say; a common size is assumed until the first frame.
        self.width, self.height = self.stream.width or 1920, self.stream.height or 1080
        self.batch_size = frames_at_a_time(self.width, self.height)
        rate = self.stream.average_rate or self.stream.guessed_rate or Fraction(25)
        self.frame_rate = float(rate) if 0 < rate <= 1000 else 25.0
        aspect = self.stream.sample_aspect_ratio
        self.pixel_aspect = float(aspect) if aspect and 0.1 <= aspect <= 10 else 1.0
        self.declared_duration = _declared_duration(self.container, self.stream)
        self._jumps: list[float] = []
        self._passed = 0  # packets that are read, but not decoded
        self._facts: VideoFacts | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._decoding is not None:
            self._decoding.close()  # its threads read from the container
        self.container.close()

    @property
    def facts(self) -> VideoFacts:
        """Size, length and frame rate; available when :meth:`frames` is exhausted."""
        if self._facts is None:
            raise RuntimeError("the facts of a video are known only when all its frames have been read")
        return self._facts

    @property
    def lacks_times(self) -> bool:
        """Whether no packet says when its frame is shown: AVI has decoding timestamps only, from which FFmpeg does not
        derive the others where H.264 or HEVC has reordered frames."""
        codec = self.stream.codec_context
        return self.kind == "avi" and codec.name in ("h264", "hevc") and bool(codec.has_b_frames)

    def stamp(self, frame: VideoFrame) -> int | None:
        """The presentation timestamp of a frame, in ticks. AVI has none, and FFmpeg's guess is wrong where H.264 is
        stored in another order than it is shown: there it is the decoding timestamp with which the frame comes out."""
        return frame.dts if self.kind == "avi" else frame.pts

    def frames(
        self, transform: Callable[[Iterator[VideoFrame]], Sequence[Any]] = list, queue_limit: int = 64
    ) -> Iterator[tuple[int, float, Any]]:
        """Decode the video.

        Args:
            transform: maps a batch of consecutive frames, at most :attr:`batch_size`, to one result each; called in the
                decoding threads, for the video's first batch before any other.
            queue_limit: maximum number of results that each thread holds ready.

        Yields:
            ``(index, time, result)``: index from 0, time in seconds from the video's first frame, strictly increasing,
            from presentation timestamps. Frames without one follow by their durations or the nominal rate. Both are
            those of the whole video where only a part of it is read.

        Raises:
            VideoError: no frame can be decoded, or the part begins after the video's end.
        """
        nominal = 1.0 / self.frame_rate
        tick = self.stream.time_base or Fraction(0)
        ticks_up, ticks_down, tick_seconds = tick.numerator, tick.denominator, float(tick)
        begin, stop = self._range
        skipped, first = (0, None) if begin <= 0 else self._skip(begin)
        index, last, length, offset = skipped - 1, -nominal, nominal, 0.0
        former, doubtful = 0.0, -math.inf  # the offset before a new clock, which until then may turn out to be right
        width = height = yielded = 0

        def stamped(frames: Iterator[VideoFrame]) -> list[tuple[int | None, int, Any]]:
            stamps: list[tuple[int | None, int]] = []

            def noted() -> Iterator[VideoFrame]:
                nonlocal width, height
                for frame in frames:
                    if not width:
                        self.rotation = (-round(frame.rotation / 90)) % 4
                        width, height = frame.width, frame.height
                    stamps.append((self.stamp(frame), frame.duration))
                    yield frame

            results = transform(noted())
            return [(*stamp, result) for stamp, result in zip(stamps, results, strict=True)]

        damage = Damage()
        self._decoding = self._decode(stamped, damage, queue_limit)
        for pts, ticks, result in self._decoding:
            index += 1
            if pts is None:
                time = round(last + length, 6)
            else:
                stamp = pts * ticks_up / ticks_down
                first = stamp if first is None else first
                time = round(stamp - first + offset, 6)
                if last < doubtful and (known := round(stamp - first + former, 6)) > last - CLOCK_NOISE:
                    offset, time = former, known  # the clock goes on: only a damaged frame was out of order
                if time <= last:  # keep times increasing; joined recordings start a new clock
                    if last - time > CLOCK_NOISE:
                        former = former if last < doubtful else offset  # several frames may be out of order
                        doubtful = last + CLOCK_NOISE
                        offset += last + nominal - time
                    time = last + nominal
            last, length = time, ticks * tick_seconds
            if not 0.0 < length <= 10.0:  # some recorders write a huge one for the last frame
                length = nominal
            if time >= stop - _SAME_TIME:
                length = 0.0
                break
            if time >= begin - _SAME_TIME:
                yielded += 1
                yield index, time, result
        else:
            index, stop = index + 1, math.inf
        self._decoding.close()  # its threads read on
        end = round(last + length, 6)
        if not yielded and 0 < end <= begin:
            raise VideoError(f"{self.path}: ends at {end:.3f} s, and the part to read begins at {begin:g} s")
        if not yielded and index > 0:
            until = self._range[1]
            part = f"after {begin:g} s" if until == math.inf else f"between {begin:g} s and {until:g} s"
            raise VideoError(f"{self.path}: has no frame {part}")
        if not yielded:
            raise VideoError(f"{self.path}: no frame of it can be decoded; it may be damaged")
        if self.rotation % 2:
            width, height = height, width
        self._facts = VideoFacts(
            str(self.path), width, height, end, index, self.frame_rate, **container_facts(self.container)
        )
        if damage.places:
            self.warnings.append(
                f"{self.path}: is damaged in {damage.places} place(s); what could be read of it was used"
            )
        if self._jumps:
            self.warnings.append(
                f"{self.path}: its clock jumps forward {len(self._jumps)} time(s), by {sum(self._jumps):.1f} s in all, "
                "as in joined recordings; the video continues there without a gap"
            )
        if stop == math.inf:
            self._note_missing_end(end, first or 0.0)

    def _skip(self, start: float) -> tuple[int, float | None]:
        """Skip the packets before the last point up to ``start`` at which a decoder can begin.

        Returns:
            the number of frames left out, and the time of the video's first frame in seconds on the file's clock; 0 and
            None where the video has to be decoded from its beginning: in formats whose frames may refer to any before,
            and where times depend on all frames before, as in joined recordings.
        """
        is_restart = restart_test(self.stream)
        if is_restart is None and self.stream.codec_context.codec.intra_only:
            is_restart = lambda packet: True  # noqa: E731
        tick = self.stream.time_base
        if is_restart is None or not tick or self.lacks_times or not is_file(self.path):
            return 0, None
        with open_container(self.path) as other:
            stream = video_stream(self.path, other)
            opening = next(
                chain.from_iterable(decode(other.demux(stream), stream.codec_context, tuple, Damage(), 1)), None
            )
            if opening is None or (stamp := self.stamp(opening)) is None:
                return 0, None
        first = stamp * tick.numerator / tick.denominator
        found = self._skip_by_index(first + start, is_restart)
        if found is None:
            with open_container(self.path) as other:
                packets = demux(other, video_stream(self.path, other))
                found = self._skip_by_reading(packets, first + start, is_restart)
        return found, first if found else None

    def _skip_by_index(self, time: float, is_restart: Callable[[Packet[VideoStream]], bool]) -> int | None:
        """Seek by the index of an MP4 or QuickTime file, which lists all frames; None where there is no such index."""
        entries, tick = self.stream.index_entries, self.stream.time_base
        assert tick is not None
        if self.kind != "mov" or not len(entries):
            return None
        if (entries[-1].timestamp - entries[0].timestamp) * tick > _WRONG_CLOCK:  # see demux
            return None
        frames, keys = 0, []
        for entry in entries:
            if entry.timestamp * tick > time:
                break
            if entry.is_keyframe:
                keys.append((entry.timestamp, frames))
            frames += not entry.is_discard
        for stamp, before in reversed(keys):
            self.container.seek(stamp, stream=self.stream)
            packets = self.container.demux(self.stream)
            packet = next(packets)
            if packet.dts != stamp:
                break
            if packet.pts is not None and packet.pts * tick <= time + _SAME_TIME and is_restart(packet):
                self.container.seek(stamp, stream=self.stream)
                return before
        self.container.seek(0)
        return None

    def _skip_by_reading(
        self, packets: Iterator[Packet[VideoStream]], time: float, is_restart: Callable[[Packet[VideoStream]], bool]
    ) -> int:
        """Read the file up to a time without decoding; sets how many packets to skip, and returns how many frames."""
        frames = found = unread = 0
        latest = -math.inf
        tick = float(self.stream.time_base or 0)
        with suppress(av.FFmpegError):  # the file is damaged here; decoding will report it
            for number, packet in enumerate(packets):
                if not packet.size:
                    continue
                stamp = latest if packet.dts is None else packet.dts * tick
                if packet.pts is None or stamp < latest - CLOCK_NOISE:
                    return 0  # these times are known only after decoding
                if stamp > time:
                    break
                latest = stamp
                if packet.pts * tick <= time + _SAME_TIME and is_restart(packet):
                    found, unread = frames, number
                if packet.has_sidedata("new_extradata") and number:
                    break  # a decoder that begins later would not have these parameters
                frames += not packet.is_discard
        self._passed = unread
        return found

    def _decode(
        self, transform: Callable[[Iterator[VideoFrame]], Sequence[Result]], damage: Damage, queue_limit: int
    ) -> Generator[Result, None, None]:
        packets = self._packets(damage)
        is_restart = restart_test(self.stream)
        decoder = self.stream.codec_context
        if self._threads == 1 or is_restart is None or not self.path.is_file():
            decoder.thread_type, decoder.thread_count = "AUTO", self._threads
            yield from chain.from_iterable(decode(packets, decoder, transform, damage, self.batch_size))
            return
        others = [open_container(self.path) for _ in range(1, self._threads)]
        try:
            # Opened the same way, so that all decoders have the same stream parameters.
            decoders = [decoder, *(video_stream(self.path, other).codec_context for other in others)]
            for decoder in decoders:
                decoder.thread_count = 1
            runs = ParallelDecoder(packets, decoders, is_restart, transform, damage, self.batch_size, queue_limit)
            with closing(iter(runs)) as result:
                yield from result
            self.exact = runs.exact
        finally:
            for other in others:
                other.close()

    def _packets(self, damage: Damage) -> Iterator[Packet[VideoStream]]:
        try:
            packets = demux(self.container, self.stream, on_jump=self._jumps.append)
            for packet in islice(packets, self._passed, None):
                if packet.size:  # an empty packet would signal the end to the decoder
                    yield packet
        except av.FFmpegError:  # the container is truncated or damaged here: keep what came before
            damage.note()

    def _note_missing_end(self, end: float, first: float) -> None:
        declared = self.declared_duration
        if declared is None:
            return
        if self.kind == "matroska":
            declared -= first  # Matroska counts from time 0, not from the first frame
        declared -= sum(self._jumps)
        if declared - end > max(1.0, 0.02 * declared):
            self.warnings.append(
                f"{self.path}: ends early: {end:.1f} s of the {declared:.1f} s it declares could be read"
            )


def open_container(path: Path) -> InputContainer:
    """Open a video file with FFmpeg.

    Raises:
        VideoError: one line, when there is no such file, or it is not a video.
    """
    try:
        status = path.stat()
        if S_ISDIR(status.st_mode):
            raise VideoError(f"{path}: is a folder, not a video")
        if S_ISREG(status.st_mode) and status.st_size == 0:
            raise VideoError(f"{path}: is empty")
        _check_playlist(path)
        # "file:" prevents FFmpeg from taking a name with a colon for a protocol. The option is for MPEG-TS: where the
        # streams of a programme get new ids, as between two broadcasts, they continue the old ones.
        container: InputContainer = av.open(f"file:{path}", options={"merge_pmt_versions": "1"}, **_METADATA)
    except FileNotFoundError as error:
        raise VideoError(f"{path}: no such file") from error
    except PermissionError as error:
        raise VideoError(f"{path}: cannot be read (permission denied)") from error
    except (av.FFmpegError, OSError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise VideoError(f"{path}: not a video that can be read ({reason})") from error
    formats = container.format.name.split(",")
    if any(name in _STILL_FORMATS or name.endswith("_pipe") for name in formats):
        container.close()
        what = "plain text" if "tty" in formats else "a still image"
        raise VideoError(f"{path}: is {what}, not a video")
    return container


def _check_playlist(path: Path, listed: bool = False) -> None:
    """Refuse an HLS playlist without an end, such as a live stream, for which FFmpeg would wait forever. Raises
    VideoError for one, or OSError."""
    if not is_file(path):
        return
    with path.open("rb") as file:
        text = file.read(7)
        if text != b"#EXTM3U":
            return
        lines = file.read(2**24).splitlines()
    if any(line.startswith(b"#EXTINF") for line in lines) and b"#EXT-X-ENDLIST" not in map(bytes.strip, lines):
        raise VideoError(f"{path}: is a playlist without an end; if nothing follows, add a last line #EXT-X-ENDLIST")
    if any(line.startswith(b"#EXT-X-STREAM-INF") for line in lines):
        if listed:
            raise VideoError(f"{path}: is a playlist of playlists inside another one; name one of its parts")
        for line in filter(None, map(bytes.strip, lines)):
            if not line.startswith(b"#"):
                _check_playlist(path.parent / os.fsdecode(line), listed=True)


def container_facts(container: InputContainer) -> dict[str, Any]:
    """The fields of `VideoFacts` on sound and start timecode."""
    known = [track.codec_context for track in container.streams.audio if track.codec_context is not None]
    timecodes = (tags.get("timecode") for tags in (container.metadata, *(s.metadata for s in container.streams)))
    return {
        "start_timecode": next(filter(None, timecodes), None),
        "sound_tracks": len(container.streams.audio),
        "sound_channels": layout_of(known[0]).nb_channels if known else None,
        "sound_rate": known[0].sample_rate if known else None,
    }


def layout_of(decoder: AudioCodecContext) -> AudioLayout:
    """The channel layout of a sound track. Call it before the track is decoded: with channels in an order of their own,
    as in some QuickTime files, PyAV 18.1 frees the layout twice, and the process crashes. Such a track gets the usual
    layout of so many channels."""
    layout = decoder.layout
    if has_own_order(layout):
        number = layout.nb_channels
        decoder.layout = f"{number}{'c' if number <= 8 else 'C'}"  # C: in no order
    return layout


def has_own_order(layout: AudioLayout) -> bool:
    """Whether the channels of a layout are in another order than FFmpeg's, or some are not known."""
    names = [channel.name for channel in layout.channels] if " channels (" in layout.name else []
    return any(name not in _CHANNELS for name in names) or names != sorted(set(names), key=_CHANNELS.index)


def demux(
    container: InputContainer, *streams: S, on_jump: Callable[[float], None] = lambda seconds: None
) -> Iterator[Packet[S]]:
    """The packets of some streams in the order of the file, each stream ended by an empty packet.

    If the clock jumps forward, as between joined recordings, time continues without the gap, as in FFmpeg's command
    line; ``on_jump`` is called with the length of the gap.

    Raises:
        av.FFmpegError: the container is damaged.
    """
    packets: Any = container.demux(streams)
    flags: Any = container.format.flags  # an int, which its type says it is not
    longest = _NEW_CLOCK if flags & ContainerFlags.ts_discont.value else _WRONG_CLOCK
    ticks = {one.index: float(one.time_base or 0) for one in container.streams}  # a packet makes a fraction each time
    gaps = [0.0]  # each jump up to now, in seconds to subtract
    ends: dict[int, float] = {}
    chosen: dict[int, float] = {}
    try:
        for packet in packets:
            index = packet.stream_index
            tick = ticks.get(index, 0.0)
            if packet.dts is not None and tick:
                stamp = packet.dts * tick
                gap, end = chosen.get(index, 0.0), ends.get(index)
                if end is not None and stamp - gap - end > longest:
                    # the gap of the other streams, so that sound stays with its frames
                    near = [known for known in gaps if abs(stamp - known - end) <= longest]
                    if near:
                        gap = near[-1]
                    else:
                        on_jump(stamp - end - gap)
                        gap = stamp - end
                        gaps.append(gap)
                    chosen[index] = gap
                if gap:
                    shift = round(gap / tick)
                    packet.dts -= shift
                    packet.pts = None if packet.pts is None else packet.pts - shift
                ends[index] = stamp - gap + (packet.duration or 0) * tick
            yield packet
    except IndexError:
        # PyAV knows the streams found at opening. If more appear, which only formats without a header allow, it fails
        # after the last packet, when it ends all streams. FFmpeg's own command line ignores such streams, too.
        return


def first_time(video: Path, consequence: str) -> Fraction:
    """Presentation time of the first frame that can be decoded, in seconds on the file's clock.

    Raises:
        VideoError: there is none, or it has no timestamp, with what follows from that: ``consequence``.
    """
    with VideoDecoder(video, threads=1) as source:
        for _, _, frame in source.frames(lambda frames: [next(frames)]):
            if (stamp := source.stamp(frame)) is None or not frame.time_base:
                break
            return Fraction(stamp * frame.time_base)
    raise VideoError(f"{video}: has frames without timestamps, {consequence}")


def check_same_video(video: Path, scenes: SceneList) -> None:
    """Check that a file is the video of some scenes, by its fingerprint or else by the length that it declares.

    Raises:
        VideoError: one line, where it is another video.
    """
    if scenes.video.fingerprint is not None and scenes.video.fingerprint == fingerprint(video):
        return
    length = declared_length(video)
    if length is not None:
        check_length(video, length, scenes)


def declared_length(video: Path) -> float | None:
    """Seconds from the first frame of a video to its end, as its container declares them; None where it does not.

    Raises:
        VideoError: one line, for a video that cannot be opened.
    """
    with VideoDecoder(video) as opened:
        length, start, tick = opened.declared_duration, opened.stream.start_time, opened.stream.time_base
    if length is not None and opened.kind == "matroska" and start and tick:
        length -= float(start * tick)  # Matroska counts from time 0, not from the first frame
    return length


def check_length(video: Path, length: float, scenes: SceneList) -> None:
    """Raises VideoError where a video of ``length`` seconds is not that of the scenes, or is shorter than their
    part."""
    expected = scenes.video.duration
    more = length - expected if scenes.settings.get("end") is None else min(0.0, length - expected)
    if abs(more) > max(1.0, 0.02 * expected):
        raise other_video(video, f"{length:.1f} s", f"{expected:.1f} s")


def other_video(video: Path, found: str, expected: str) -> VideoError:
    """The error for a video with another length than that of the scenes."""
    return VideoError(
        f"{video}: has {found}, but the scenes are of a video with {expected}; give the scenes.json of this video"
    )


def video_stream(path: Path, container: InputContainer) -> VideoStream:
    """Select the video stream of a file.

    Raises:
        VideoError: one line, when there is none that can be decoded.
    """
    # A cover image in a sound file is a video stream, too.
    streams = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if not streams:
        raise VideoError(f"{path}: has no video stream")
    known = [s for s in streams if s.codec_context is not None]
    if not known:
        raise VideoError(f"{path}: its video codec is not one that this FFmpeg decodes")
    stream = max(known, key=lambda s: (bool(s.disposition & Disposition.default), s.width * s.height))
    if stream.width * stream.height > _MOST_PIXELS:
        raise VideoError(f"{path}: has frames of {stream.width} x {stream.height} pixels, too large to be read")
    return stream


def _declared_duration(container: InputContainer, stream: VideoStream) -> float | None:
    # Matroska has the duration of a track in a tag; that of the file may come from longer sound.
    tag = re.fullmatch(r"(\d+):(\d+):(\d+(?:\.\d+)?)", stream.metadata.get("DURATION", ""))
    if tag is not None:
        return int(tag[1]) * 3600 + int(tag[2]) * 60 + float(tag[3])
    if stream.duration is not None and stream.time_base and stream.duration > 0:
        return float(stream.duration * stream.time_base)
    if container.duration is not None and container.duration > 0:
        return container.duration / 1_000_000
    return None
