"""Child processes that run one task each and send messages back over a pipe, and programs of the user.

For tasks that may crash (a codec) or that must not share the global interpreter lock with the caller. The task is a
pickle on the child's stdin. Each message on its stdout is a pickle of its kind, content and number of raw bytes, and
these bytes. The child exits when its stdin closes, because the parent ended."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from time import sleep
from typing import IO, Any, Protocol, cast

import pipelines.errors
from pipelines.errors import NO_MEMORY, BasslError, VideoError, first_line, is_out_of_memory

_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # which Windows lacks

GRACE = 2.0  # seconds in which a process may end by itself
_LONGEST_LINE = 2**16  # bytes of a line that a user's program prints

# For children that decode: idle BLAS threads of NumPy spin, and memory freed after each frame is needed again at once.
_ENVIRONMENT = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(64 * 2**20))
_ENVIRONMENT["OPENBLAS_NUM_THREADS"] = "1"


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes of memory that programs can still take, on this machine and within the limits of its containers
    (cgroups, version 2); without `/proc`, the whole memory; or None."""
    sizes: list[int] = []
    with suppress(OSError, ValueError):
        available = dict(line.split(":") for line in (root / "proc/meminfo").read_text().splitlines())["MemAvailable"]
        sizes = [1024 * int(available.split()[0])]
    if not sizes and hasattr(os, "sysconf"):
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    top, path = root / "sys/fs/cgroup", ""
    with suppress(OSError, IndexError):
        path = (root / "proc/self/cgroup").read_text().partition("0::/")[2].splitlines()[0]
    # In a container, the path may be the host's: then only the top, the container's own group, is there.
    for group in (folder for folder in (top / path, *(top / path).parents) if folder.is_relative_to(top)):
        with suppress(OSError, ValueError, KeyError):  # not there, or without a limit
            limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
            cached = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            sizes.append(limit - used + int(cached["inactive_file"]))  # what the kernel would drop is free
    return max(0, min(sizes)) if sizes else None


def limit_threads_and_memory() -> None:
    """Limit the BLAS threads and the free memory of a process that runs beside decoding processes: by default glibc
    keeps what is freed, up to 32 MB at a time, and a process that makes large arrays grows with time."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is imported
    with suppress(OSError, AttributeError, TypeError):  # another C library, as on Windows
        library = ctypes.CDLL(None)
        library.mallopt(-3, 2**22)  # M_MMAP_THRESHOLD: return arrays of 4 MB or more
        library.mallopt(-1, 2**22)  # M_TRIM_THRESHOLD: keep at most 4 MB free


class Send(Protocol):
    """Function that sends a message from the child: its kind, any content that can be pickled, and raw bytes."""

    def __call__(self, kind: str, content: Any = None, payload: Iterable[memoryview] = ()) -> None: ...


Work = Callable[[Any, Send], None]
"""What a child runs: a function at the top level of a module, called with the task and the function to send with."""


def start_module(name: str, arguments: Sequence[str], stdout: IO[str]) -> subprocess.Popen[str]:
    """Start ``python -m NAME ARGUMENTS`` with its stderr in a pipe. It gets SIGTERM when this process ends."""
    code = (
        "import runpy, signal, sys, pipelines.processes as c; c.end_with_parent(signal.SIGTERM); "
        "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
    )
    return _run_python([code, name, *arguments], {}, stdout=stdout, stderr=subprocess.PIPE, text=True, errors="replace")


def _run_python(code: Sequence[str], environment: Mapping[str, str], **options: Any) -> subprocess.Popen[Any]:
    # Children import the package from where this process did, installed or not.
    path = [str(Path(pipelines.errors.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        # -P: modules called `pipelines` or `json` in the current folder are not imported
        [sys.executable, "-P", "-c", *code],
        stdin=subprocess.PIPE,
        env=os.environ | environment | {"PYTHONPATH": os.pathsep.join(filter(None, path))},
        # Ctrl-C reaches the parent only, which ends its children.
        process_group=0,  # ignored on Windows
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        **options,
    )


class Child:
    """Running child process; ``process`` has its pid and exit code."""

    def __init__(self, work: Work | str, task: Any) -> None:
        """Run ``work(task, send)`` in a child process; ``work`` may be ``module:function``, not imported here."""
        name = work if isinstance(work, str) else f"{work.__module__}:{work.__name__}"
        code = f"import pipelines.processes as c; c.serve({name!r}, {[*map(str, sys.path)]!r})"
        self.process = _run_python([code], _ENVIRONMENT, stdout=subprocess.PIPE)
        self._input, self._messages = cast(IO[bytes], self.process.stdin), cast(IO[bytes], self.process.stdout)
        with suppress(OSError):  # if it died at once, receive() returns None
            self._input.write(pickle.dumps(task))
            self._input.flush()

    def receive(self) -> tuple[str, Any, bytes] | None:
        """Return the next message as (kind, content, raw bytes), or None when the child has ended. Raises a
        BasslError that was raised in the child; any other exception there is a message of the kind "bug"."""
        try:
            kind, content, size = pickle.load(self._messages)
            payload = self._messages.read(size)
        except (EOFError, pickle.UnpicklingError):  # it ended, or died while sending
            return None
        if len(payload) < size:
            return None
        if kind == "error":
            raise content
        return kind, content, payload

    def messages_on(self, video: Path) -> Iterator[tuple[str, Any, bytes]]:
        """Yield the messages of a child that reads a video. Raises its BasslError, or VideoError if it dies."""
        while (message := self.receive()) is not None:
            kind, content, _ = message
            if kind == "bug":
                raise VideoError(f"{video}: cannot be read ({content})")
            yield message
        code = self.process.wait()
        end = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise VideoError(f"{video}: the process that read it died ({end}); the file may be damaged")

    def kill(self) -> None:
        """Kill the process if it still runs, and close its pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self._input, self._messages):
            with suppress(OSError):  # unwritten data is not needed any more
                pipe.close()


def serve(name: str, path: list[str]) -> None:
    """Read the task of this child, run it, and send its exception. ``path`` is ``sys.path`` of the parent."""
    # Output that libraries print must not mix with the messages: stdout becomes stderr.
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.set_threshold(20_000, 20, 50)  # imports make many objects and no garbage, and take a tenth less time
    sys.path += [folder for folder in path if folder and folder not in sys.path]

    def send(kind: str, content: Any = None, payload: Iterable[memoryview] = ()) -> None:
        parts = list(payload)
        message = pickle.dumps((kind, content, sum(part.nbytes for part in parts)))
        try:
            channel.write(message)
            for part in parts:
                channel.write(part)
            channel.flush()
        except OSError:  # the parent has closed the pipe
            os._exit(1)

    try:
        module, _, function = name.partition(":")
        work: Work = getattr(import_module(module), function)
        try:
            task = pickle.load(sys.stdin.buffer)
        except EOFError:  # the parent has ended
            return
        end_with_parent()
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # ends the user's programs
        work(task, send)
    except BasslError as error:
        send("error", error)
    except Exception as error:
        if is_out_of_memory(error):
            send("error", BasslError(NO_MEMORY))
            return
        place = traceback.extract_tb(error.__traceback__)[-1]
        bug = f"unexpected {type(error).__name__} in {Path(place.filename).name}, line {place.lineno}"
        send("bug", f"{bug}: {first_line(error)}")
    finally:
        channel.close()


def run_program(command: Sequence[str], content: bytes, seconds: float) -> str:
    """Run a user's program with these bytes on stdin, and return the first line that it prints, or an empty text. If it
    fails or takes more ``seconds``, or at an exception here, all processes that it started are ended. Raises OSError if
    it cannot be started, and SubprocessError if it fails or takes too long."""
    new_group = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    with TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, process_group=0, creationflags=new_group
        )
        try:
            process.communicate(content, seconds)
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, command)
        except BaseException:
            if kill_group := getattr(os, "killpg", None):
                with suppress(OSError):  # all of them have ended
                    kill_group(process.pid, _KILL)
            process.kill()
            process.wait()
            raise
        output.seek(0)
        lines = output.read(_LONGEST_LINE).decode("utf-8", "replace").strip().splitlines()
        return lines[0] if lines else ""


def end_with_parent(number: int = _KILL) -> None:
    """End this process, from now on, when the parent closes the pipe to stdin or ends: by SIGTERM, so that it ends the
    user's programs, and if that is not enough by the signal ``number``."""
    # Stdin becomes empty: on Windows, while one thread waits for a pipe, imports that ask what stdin is would wait too.
    pipe, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def wait() -> None:
        while os.read(pipe, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        sleep(GRACE)
        os.kill(os.getpid(), number)

    Thread(target=wait, daemon=True).start()
