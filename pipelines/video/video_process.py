"""Video reading in a child process.

Decoding and shot detection hold the global interpreter lock for much of the time: in threads of one process, they and
an encoder would block each other. Besides, a crash inside a codec becomes a :class:`VideoError` and does not end the
caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

from pipelines.errors import BasslError
from pipelines.processes import Child
from pipelines.scenes import Line, Segment, VideoFacts
from pipelines.video.shots import KeyframedShot, ReaderSettings

# The function that the child runs, by name: the parent need not import the decoder.
_READ_VIDEO = "pipelines.video.reader:send_video"

# Maximum number of messages in the queue: about 40 MB of keyframes.
_WAITING_MESSAGES = 48

_Message = tuple[str, Any, bytes] | BasslError


class VideoProcess:
    """Child process with a :class:`pipelines.video.reader.VideoReader`; iterate over it for the shots.

    The process starts when this is constructed. Use it as a context manager, which always ends the process.

    Raises (while iterating):
        BasslError: raised by the reader; a :class:`VideoError` if the process dies.
    """

    facts: VideoFacts
    warnings: list[str]
    lines: tuple[Line, ...]
    segments: tuple[Segment, ...]

    def __init__(
        self, path: Path, settings: ReaderSettings, progress: Callable[[float, float | None], None] | None = None
    ) -> None:
        self._path = path
        self._progress = progress or (lambda done, total: None)
        self._child = Child(_READ_VIDEO, (path, settings))
        self._messages: Queue[_Message] = Queue(_WAITING_MESSAGES)
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
                    self.facts, self.warnings, self.lines, self.segments = content
                    return

    def _receive(self) -> None:
        # Empties the pipe while the caller is busy (importing torch), so that the child does not wait.
        try:
            for message in self._child.messages_on(self._path):
                self._messages.put(message)
        except BasslError as error:
            self._messages.put(error)
