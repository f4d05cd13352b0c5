"""Reading a film in a process of its own.

Decoding and detection keep one core busy without Python's lock being free for much else, so that they and an encoder
in threads of one process wait for each other. A process of its own also keeps a crash inside a codec away from the
caller: it becomes a :class:`VideoError`.

The child is ``python -m pipelines.video.process``; it gets its task as JSON on stdin and answers with messages on
stdout: the length of a JSON head, the head, and the pixels of key-frames where the head tells of some.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from queue import Queue
from threading import Thread
from types import TracebackType
from typing import IO, Any

import numpy as np

import pipelines.errors
from pipelines.errors import BasslError, VideoError
from pipelines.scenes import VideoFacts
from pipelines.video.shots import FilmedShot, ReaderSettings

# Messages that may wait for the caller: about 40 MB of key-frames.
_WAITING_MESSAGES = 48
_HEAD_LENGTH = struct.Struct("<I")


class FilmProcess:
    """Reads like :class:`pipelines.video.reader.FilmReader`, but in another process, from the moment it is made.

    Use it in a ``with`` block, which ends the process in any case.

    Raises (while iterating):
        BasslError: what the reader raises; a :class:`VideoError` when its process dies.
    """

    facts: VideoFacts
    warnings: list[str]

    def __init__(
        self,
        path: Path,
        settings: ReaderSettings,
        progress: Callable[[float, float | None], None] | None = None,
    ) -> None:
        self._path = path
        self._progress = progress or (lambda done, total: None)
        home = str(Path(pipelines.__file__).parent.parent)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")])),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pipelines.video.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        task = {"path": str(path), "settings": asdict(settings) | {"shots": settings.shots and str(settings.shots)}}
        self._process.stdin.write(json.dumps(task).encode())
        self._process.stdin.close()
        self._messages: Queue[tuple[dict[str, Any], bytes] | None] = Queue(_WAITING_MESSAGES)
        self._closing = False
        self._receiver = Thread(target=self._receive, args=(self._process.stdout,), daemon=True)
        self._receiver.start()

    def __enter__(self) -> FilmProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._process.kill()
        while self._receiver.is_alive():  # it may be waiting for room
            while not self._messages.empty():
                self._messages.get_nowait()
            self._receiver.join(0.01)
        self._process.wait()

    def __iter__(self) -> Iterator[FilmedShot]:
        while (message := self._messages.get()) is not None:
            head, pixels = message
            match head.pop("message"):
                case "progress":
                    self._progress(head["done"], head["total"])
                case "shot":
                    pictures = np.frombuffer(pixels, np.uint8).reshape(head.pop("shape"))
                    indices = tuple(head.pop("keyframe_indices"))
                    yield FilmedShot(**head, keyframes=tuple(pictures), keyframe_indices=indices)
                case "end":
                    self.facts = VideoFacts(**head["facts"])
                    self.warnings = head["warnings"]
                    return
                case "error":
                    raise getattr(pipelines.errors, head["kind"])(head["text"])
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise VideoError(f"{self._path}: the process that read it died ({how}); the file may be damaged")

    def _receive(self, stream: IO[bytes]) -> None:
        while not self._closing:
            length = stream.read(_HEAD_LENGTH.size)
            if len(length) < _HEAD_LENGTH.size:
                break
            head = stream.read(_HEAD_LENGTH.unpack(length)[0])
            pixels = b""
            try:
                content = json.loads(head)
                if "shape" in content:
                    size = int(np.prod(content["shape"]))
                    pixels = stream.read(size)
                    if len(pixels) < size:
                        break
            except ValueError:  # the child died in the middle of a message
                break
            self._messages.put((content, pixels))
        self._messages.put(None)


def _serve() -> None:
    """The child's side."""
    from pipelines.video.reader import FilmReader

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends this process
    task = json.load(sys.stdin)
    # What a library prints must not get between the messages.
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def send(message: str, head: dict[str, Any], *pictures: Any) -> None:
        encoded = json.dumps({"message": message} | head).encode()
        channel.write(_HEAD_LENGTH.pack(len(encoded)) + encoded)
        for picture in pictures:
            channel.write(np.ascontiguousarray(picture).data)
        channel.flush()

    settings = task["settings"]
    settings["shots"] = settings["shots"] and Path(settings["shots"])
    try:
        reader = FilmReader(
            Path(task["path"]),
            ReaderSettings(**settings),
            lambda done, total: send("progress", {"done": done, "total": total}),
        )
        for shot in reader:
            head = {key: getattr(shot, key) for key in ("index", "start_frame", "end_frame", "start", "end")}
            head["keyframe_indices"] = shot.keyframe_indices
            head["shape"] = (len(shot.keyframes), *shot.keyframes[0].shape)
            send("shot", head, *shot.keyframes)
        send("end", {"facts": asdict(reader.facts), "warnings": reader.warnings})
    except BasslError as error:
        send("error", {"kind": type(error).__name__, "text": str(error)})
    except BrokenPipeError:
        os._exit(1)


if __name__ == "__main__":
    _serve()
