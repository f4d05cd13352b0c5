"""Settings and result of video reading, in a child process, without imports of FFmpeg, OpenCV or NumPy. In one process,
decoding and an encoder would block each other, and a crash inside a codec would end the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines.errors import BasslError
from pipelines.processes import Child
from pipelines.scenes import Line, Segment, Transition, VideoFacts

if TYPE_CHECKING:  # start-up time: settings import nothing heavy, so that --help is instant
    import numpy as np
    from numpy.typing import NDArray

    from pipelines.video.series import Episode


class Boundary(NamedTuple):
    """Where one shot ends and the next begins. The frames ``[start, end)`` belong to both shots or to neither."""

    kind: str  # cut, dissolve, fade or wipe; empty if the detector does not know
    start: int
    end: int

    @classmethod
    def at(cls, frame: int, kind: str = "") -> Boundary:
        """Return the boundary without a transition before a frame."""
        return cls(kind, frame, frame)

    @property
    def frame(self) -> int:
        """Return the first frame of the new shot: the middle of the transition."""
        return (self.start + self.end) // 2


@dataclass(frozen=True)
class ReaderSettings:
    """How a video is divided into shots, and what else is read of it; see also `pipelines.settings.Reading`."""

    detector: str = "transitions"
    detector_threshold: float | None = None  # in the detector's own unit; None is its default
    min_shot: float | None = None  # seconds; None is 0.6, and no minimum with transnetv2
    shots: Path | tuple[int, ...] | None = None  # in place of a detector: a file, or first frames of all but the first
    keyframes: int = 3  # of each shot, N_k (the paper's appendix A: 3), at 1/(N_k+1), 2/(N_k+1), ... of it
    lines: int = 240  # height of a keyframe in pixels; a smaller video is not enlarged
    start: float | None = None  # of the part to read, in seconds; times and frame numbers count from the video's start
    end: float | None = None  # of the part to read, in seconds
    subtitles: Path | bool = False  # a file; True: the file beside the video, or else the video's own track
    subtitle_encoding: str | None = None  # of the file; None finds it
    silence: bool = False  # whether the sound is decoded too, to find silence
    hashes: bool = False  # whether frames are hashed, see `pipelines.video.series`
    threads: int | None = None  # for decoding, never more than four; None is one per core; the result is the same


@dataclass(frozen=True)
class KeyframedShot:
    """A shot as the reader yields it: half-open ranges in frames and seconds, and its keyframes."""

    index: int
    start_frame: int
    end_frame: int
    start: float
    end: float
    keyframes: tuple[NDArray[np.uint8], ...] = field(repr=False)  # N_k images (H, W, 3) uint8 RGB, upright
    keyframe_indices: tuple[int, ...]  # outside transitions; a shot of fewer than N_k frames repeats some
    transition: Transition | None = None  # how it ends; None at the end of the video, or if the detector does not know


# Maximum number of messages in the queue: about 40 MB of keyframes.
_WAITING_MESSAGES = 48


class VideoProcess:
    """Child process with a :class:`pipelines.video.reader.VideoReader`; iterate over it for the shots. The end of its
    context ends it. Iterating raises the reader's BasslError, and a :class:`VideoError` if the process dies."""

    facts: VideoFacts
    warnings: list[str]
    lines: tuple[Line, ...]
    segments: tuple[Segment, ...]
    episode: Episode  # hashes of the frames, if the settings ask for them

    def __init__(
        self, path: Path, settings: ReaderSettings, progress: Callable[[float, float | None], None] | None = None
    ) -> None:
        self._path, self._progress = path, progress or (lambda done, total: None)
        self._child = Child("pipelines.video.reader:send_video", (path, settings))  # not imported: it needs FFmpeg
        self._messages: Queue[tuple[str, Any, bytes] | BasslError] = Queue(_WAITING_MESSAGES)
        self._receiver = Thread(target=self._receive, daemon=True)
        self._receiver.start()

    def __enter__(self) -> VideoProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self._child.process.kill()
        while self._receiver.is_alive():  # it may be blocked on a full queue
            while not self._messages.empty():
                self._messages.get_nowait()
            self._receiver.join(0.01)
        self._child.kill()

    def __iter__(self) -> Iterator[KeyframedShot]:
        import numpy as np  # start-up time: the process starts first

        while True:
            message = self._messages.get()
            if isinstance(message, BasslError):
                raise message
            kind, content, pixels = message
            match kind:
                case "progress":
                    self._progress(*content)
                case "shot":
                    shot, shape = content
                    yield replace(shot, keyframes=tuple(np.frombuffer(pixels, np.uint8).reshape(shape)))
                case "end":
                    self.facts, self.warnings, self.lines, self.segments, self.episode = content
                    return

    def _receive(self) -> None:
        # Empties the pipe while the caller is busy (importing torch), so that the child does not wait.
        try:
            for message in self._child.messages_on(self._path):
                self._messages.put(message)
        except BasslError as error:
            self._messages.put(error)
