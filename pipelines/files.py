"""Atomic writing: a file is written under a temporary name in the same folder and renamed once it is complete."""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import shutil
import stat
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pipelines.errors import DIRECTIONS, BasslError, DatasetError, first_line

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None  # Windows has none
STDIO = Path("-")  # as the path of a file: stdin or stdout
MOST_BYTES = 16 * 2**20  # of a file of labels, and any other that has no limit of its own
MOST_RESULT_BYTES = 128 * 2**20  # of a ``scenes.json``, table or list of chapters: twice what 100,000 shots need
MOST_LARGE_BYTES = 2**30  # of a page with its images, a log, and an ONNX file, which is read as a whole
MOST_WEIGHT_BYTES = 2**34  # of a model, a checkpoint or the state of a run
_RECORD = ".bassl.json"  # in a folder of clips or images: what each was made from
JSON_EXPORTS = (".guides.json", ".label-studio.json")  # extensions that could be taken for a ``scenes.json``
# Suffixes searched for in folders. A file named explicitly may have any suffix.
VIDEO_ENDINGS = frozenset(
    """.3g2 .3gp .asf .avi .dav .divx .dv .dvr-ms .evo .f4v .flv .gif .gxf .h264 .h265 .hevc .insv .ivf .m1v .m2ts .m2v
    .m4v .mjpeg .mjpg .mkv .mod .mov .mp4 .mpe .mpeg .mpg .mts .mxf .nut .ogm .ogv .qt .rec .rm .rmvb .tod .tp .trp .ts
    .vob .webm .wmv .wtv .y4m""".split()  # noqa: SIM905
)
_FILE_ENDINGS = VIDEO_ENDINGS | frozenset(
    """.csv .edl .fcpxml .ffmeta .ffmetadata .h5 .html .jpeg .jpg .json .jsonl .llc .ndjson .otio .png .safetensors .txt
    .vtt .webp .xmeml .xml""".split()  # noqa: SIM905
)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file, which is flushed to disk and renamed to ``path`` if the block ends without an error, else
    removed. Missing folders are created. Raises BasslError for an OSError in the block, such as a full disk."""
    _check_target(path)
    with os_errors(path, "cannot be written"), _temporary(path) as partial:
        if path.exists():  # such as one that only its owner may read
            partial.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR)
        yield partial
        _flush(partial)
        partial.replace(path)


@contextmanager
def new_files(
    output: Path | None, usual: Path, made_from: Mapping[str, str], read: Iterable[Path | None], overwrite: bool
) -> Iterator[tuple[list[Path], list[Path], list[int]]]:
    """Yield the paths of files in the folder ``output``, or the usual one if it is None; temporary files to write,
    which are renamed at the end of the block; and their numbers among all. What each is ``made_from``, the folder
    remembers: a file that was made from the same is kept, unless ``overwrite``. Raises BasslError as
    :func:`atomic_file`, for another file that exists or is among ``read``, and for a usual folder that is a link."""
    folder = output_folder(output, usual)
    targets, record = [folder / name for name in made_from], _remembered(folder)
    is_kept = [not overwrite and record.get(t.name) == made_from[t.name] and is_file(t) for t in targets]
    numbers = [number for number, kept in enumerate(is_kept) if not kept]
    new = [targets[number] for number in numbers]
    check_inputs_kept(new, read)
    for target in new:
        _check_target(target)
        if target.exists() and not overwrite:
            raise BasslError(f"{target}: already exists; name another folder with `output`, or use `overwrite=True`")

    def remember(paths: Iterable[Path]) -> None:
        others = {name: source for name, source in _remembered(folder).items() if folder / name not in new}
        content = json.dumps(others | {path.name: made_from[path.name] for path in paths}, indent=1)
        if any(made_from.values()):
            write_atomically(folder / _RECORD, content.encode())

    with os_errors(folder, "cannot be written"), _temporary(folder / "bassl-files", is_folder=True) as temporary:
        partials = [temporary / target.name for target in new]
        yield targets, partials, numbers
        for partial in partials:
            _flush(partial)
        remember(target for target in new if not target.exists())  # if killed, the next run makes the rest
        for partial, target in zip(partials, new, strict=True):
            partial.replace(target)
        remember(new)


def _remembered(folder: Path) -> dict[str, str]:
    with suppress(BasslError, ValueError):
        record = json.loads(read_regular(folder / _RECORD))
        return record if isinstance(record, dict) else {}
    return {}


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically; to stdout if the path is ``-``. Raises BasslError as :func:`atomic_file`."""
    if path == STDIO:
        stdout: Any = sys.stdout
        with suppress(AttributeError):  # a notebook's stdout takes any text
            stdout.reconfigure(encoding="utf-8", newline="")  # as in files, for any terminal
        stdout.write(content.decode())
        sys.stdout.flush()
        return
    with atomic_file(path) as partial:
        partial.write_bytes(content)


def output_path(output: Path | None, usual: Path) -> Path:
    """Return where to write a file: at ``output``, in it if it is a folder, or at the usual path if it is None."""
    if output is None:
        return usual
    return output / usual.name if os.path.isdir(output) else output  # noqa: PTH112  # a name may be too long


def output_folder(output: Path | None, usual: Path) -> Path:
    """Return the folder to write to: ``output``, or if it is None the usual one in the working folder. Raises
    BasslError if that is a link, which may have come with the videos, and for the name of a file."""
    if output is None and usual.is_symlink():
        raise BasslError(f"{usual}: is a link to another folder; name a folder with `output`")
    check_names_folder(output or usual)
    return output or usual


def make_folder(path: Path) -> None:
    """Make the folder of several files, if it does not exist. Raises BasslError, also for the name of a file."""
    check_names_folder(path)
    with os_errors(path, "cannot be created"):
        path.mkdir(parents=True, exist_ok=True)


def check_names_folder(path: Path) -> None:
    """Check that the name of an output folder is not a file name. Raises BasslError."""
    if path == STDIO:
        raise BasslError("-: stdout takes one file; for several name a folder")
    if path.suffix.lower() in _FILE_ENDINGS:
        raise BasslError(f"{path}: is the name of a file; for several name a folder, such as {path.stem}/")


def safe_name(text: str) -> str:
    """Return a text as a file name without extension, for every system: ``_`` for what Windows refuses."""
    text = re.sub(r"\s", " ", text)
    text = "".join(sign for sign in text if unicodedata.category(sign) not in ("Cc", "Cs") and sign not in DIRECTIONS)
    return re.sub(r'[<>:"/\\|?*]', "_", text)


def user_folder(kind: Literal["cache", "config"]) -> Path | None:
    """Return the user's own folder of bassl; None without a home, for which it would be ~ in the working folder."""
    import platformdirs  # start-up time

    folder = Path(getattr(platformdirs, f"user_{kind}_dir")("bassl", appauthor=False))
    return folder if folder.is_absolute() else None


def cache_folder(name: str) -> Path | None:
    """Make and return a folder for files that can be made again, which only this user can read; None if that fails."""
    if folder := user_folder("cache"):
        with suppress(OSError):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name).chmod(0o700)
            return folder / name
    return None


def keep_newest(folder: Path, room: int) -> None:
    """Remove the oldest files of a folder until the others have at most so many bytes; the newest one stays."""
    left = room
    for file in sorted(folder.glob("[!.]*"), key=lambda file: file.stat().st_mtime, reverse=True):
        left -= file.stat().st_size
        if left < 0 and left + file.stat().st_size < room:
            with suppress(OSError):  # Windows does not remove a file that is read
                file.unlink()


@contextmanager
def _temporary(path: Path, is_folder: bool = False) -> Iterator[Path]:
    """Yield a new locked file or folder beside ``path``, removed at the end, after what killed processes left."""
    remove_leftovers(path)
    with ExitStack() as lock:
        while True:
            partial = path.with_name(f"{_hidden(path)}.{os.urandom(8).hex()}.partial")
            if is_folder:
                partial.mkdir()
            else:
                partial.touch(exist_ok=False)
            # A process that looks for leftovers may have found it before it was locked: then another one is made.
            with suppress(BlockingIOError, FileNotFoundError):
                descriptor = lock.enter_context(_lock(partial))
                if descriptor is None or os.path.samestat(os.fstat(descriptor), partial.stat()):
                    break
        try:
            yield partial
        finally:
            with suppress(OSError):  # it was renamed
                _remove(partial)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of ``path`` that killed processes left: those that can be locked."""
    for left in path.parent.glob(f"{glob.escape(_hidden(path))}.{'?' * 16}.partial"):
        # A running process may hold it, or another one have removed it.
        with suppress(OSError), _lock(left) as descriptor:
            if descriptor is not None:
                _remove(left)


def _hidden(path: Path) -> str:
    """Return the beginning of the names of temporary files, cut because file systems allow 255 bytes."""
    return "." + os.fsdecode(os.fsencode(path.name)[:210])


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _flush(path: Path) -> None:
    with path.open("r+b") as file:  # Windows flushes only files that are open for writing
        os.fsync(file.fileno())


@contextmanager
def _lock(path: Path) -> Iterator[int | None]:
    """Lock a file or folder during the block. Yields its descriptor, or None if the system has no locks. Raises
    BlockingIOError if another process holds it, FileNotFoundError if it is gone, and OSError for a link."""
    if fcntl is None:
        yield None
        return
    # To lock a file, NFS wants it open for writing.
    descriptor = os.open(path, getattr(os, "O_NOFOLLOW", 0) | (os.O_RDONLY if path.is_dir() else os.O_RDWR))
    try:
        has_locks = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            has_locks = False
        yield descriptor if has_locks else None
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path, seconds: float = 0) -> Iterator[None]:
    """Lock a folder during the block, if its file system has locks. Raises BlockingIOError if another process holds it
    for so many ``seconds``, and OSError for a folder that cannot be opened."""
    end = time.monotonic() + seconds
    with ExitStack() as lock:
        while True:
            try:
                lock.enter_context(_lock(real(folder)))
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.01)
        yield


def check_output(path: Path, read: Iterable[Path | None] = (), overwrite: bool = True) -> None:
    """Check that a file can be written at ``path``, before hours of work, and for a moment write a small file beside
    it. Raises BasslError, also for a file that is ``read``, and without ``overwrite`` for one that exists."""
    check_inputs_kept((path,), read)
    _check_target(path)
    with os_errors(path, "cannot be written"), _temporary(path) as partial:
        partial.write_bytes(bytes(4096))  # an empty file can be created on a full disk
    if path.exists() and not overwrite:
        raise BasslError(f"{path}: already exists; name another file with `output`, or use `overwrite=True`")


def _check_target(path: Path) -> None:
    """Create the folder of ``path``. Raises BasslError if that fails, or if ``path`` is a folder or device."""
    with os_errors(path, "cannot create its folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
    with os_errors(path, "cannot be written"):  # such as a name that is too long
        if path.exists() and not path.is_file():  # /dev/null must not be replaced by a file
            raise BasslError(f"{path}: is a {'folder' if path.is_dir() else 'device'}; name a file to write")


def check_inputs_kept(written: Iterable[Path | None], read: Iterable[Path | None]) -> None:
    """Check that a command writes no file that it reads, nor one in a folder that it reads. Raises BasslError."""
    inputs = {real(path) for path in read if path is not None}
    files = {_identity(path) for path in inputs if is_file(path)}
    for path in written:
        if path is None or not is_file(path):
            continue
        if _identity(path) in files:
            raise BasslError(f"{path}: is an input of this command; name another file to write")
        if not inputs.isdisjoint(real(path).parents):
            raise BasslError(f"{path}: is in a folder that this command reads; name another file to write")


def _identity(path: Path) -> tuple[int, int]:
    """Return the device and number of a file, which all its links share."""
    status = path.stat()
    return status.st_dev, status.st_ino


def check_regular(path: Path, most: int = MOST_WEIGHT_BYTES, kind: type[BasslError] = DatasetError) -> None:
    """Check that an input is a regular file, no pipe or device, of at most ``most`` bytes. Raises ``kind``."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise kind(f"{path}: no such file") from error
    except OSError as error:
        raise kind(f"{path}: cannot be read ({os_reason(error)})") from error
    if not stat.S_ISREG(status.st_mode):
        raise kind(f"{path}: is not a file")
    if status.st_size > most:
        raise kind(f"{path}: {_too_large(most)}")


def read_regular(path: Path, most: int = MOST_BYTES, kind: type[BasslError] = DatasetError) -> bytes:
    """Read a whole input, checked by `check_regular`; the path ``-`` is stdin. Raises ``kind``."""
    with os_errors(path, kind=kind):
        if path == STDIO:
            content = sys.stdin.buffer.read(most + 1)
        else:
            check_regular(path, most, kind)
            with path.open("rb") as file:
                content = file.read(most + 1)  # it may grow, and files of /proc have no size
    if len(content) > most:
        raise kind(f"{path}: {_too_large(most)}")
    return content


def _too_large(most: int) -> str:
    return f"is larger than {most / 2**20:,.0f} MB, too large for a file of this kind"


def as_paths(paths: Path | str | Iterable[Path | str]) -> list[Path]:
    """Return one path or several as a list. Raises BasslError for an empty text, which would be the working folder."""
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if "" in several:
        raise BasslError("the name of a file or folder is empty; for the working folder write .")
    return [Path(path) for path in several]


def is_file(path: Path) -> bool:
    """Return whether there is such a file; False for invalid names, for which `Path.is_file` raises."""
    return os.path.isfile(path)  # noqa: PTH113


def real(path: Path) -> Path:
    """Return the path without links; also for a loop of links, for which `Path.resolve` of Python 3.11 raises."""
    return Path(os.path.realpath(path))


def relative(path: Path, folder: Path) -> Path:
    """Return a path as seen from a folder, both without links; the path itself if it is on another drive of Windows."""
    try:
        return Path(os.path.relpath(path, folder))
    except ValueError:
        return path


@contextmanager
def os_errors(path: Path, what: str = "cannot be read", kind: type[BasslError] = BasslError) -> Iterator[None]:
    """Turn errors of the operating system in a block into BasslErrors, such as ``PATH: cannot be read (reason)``."""
    try:
        yield
    except OSError as error:
        if type(error).__module__.startswith("av."):  # FFmpeg's, such as -1 from a seek: not about this path
            raise
        raise kind(f"{path}: {what} ({os_reason(error)})") from error


def os_reason(error: OSError) -> str:
    """Return the reason of an operating system error, for a one-line message."""
    is_system = error.errno in errno.errorcode  # libraries have their own numbers
    return (os.strerror(error.errno or 0) if is_system else first_line(error)).lower()
