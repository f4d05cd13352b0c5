"""Atomic writing: a file is written under a temporary name in the same folder and renamed once it is complete."""

from __future__ import annotations

import errno
import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.errors import BasslError, first_line


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary file to write, renamed to ``path`` when the block ends without an error, else removed.

    It is flushed to disk before it is renamed, and has the permissions of any new file. Missing folders are made.

    Raises:
        BasslError: one line, for an OSError in the block, such as a full disk, and where there can be no such file.
    """
    check_writable(path)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.touch(exist_ok=False)
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise BasslError(f"{path}: cannot be written ({os_reason(error)})") from error
    finally:
        with suppress(OSError):  # renamed already, or a name too long to exist
            partial.unlink()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file, or leave the one that was there.

    Raises:
        BasslError: as :func:`atomic_file`.
    """
    with atomic_file(path) as partial:
        partial.write_bytes(content)


def remove_partials(path: Path) -> None:
    """Remove the temporary files of ``path`` that killed processes left."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.????????.partial"):
        partial.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Check that a file can be made at ``path``, before hours of work end there; makes its folder.

    Raises:
        BasslError: one line, where it cannot.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BasslError(f"{path}: its folder cannot be made ({os_reason(error)})") from error
    try:
        if path.exists() and not path.is_file():  # /dev/null must not be replaced by a file
            raise BasslError(f"{path}: is a {'folder' if path.is_dir() else 'device'}; name a file to write")
    except OSError as error:  # such as a name that is too long
        raise BasslError(f"{path}: cannot be written ({os_reason(error)})") from error
    if not os.access(path.parent, os.W_OK):
        raise BasslError(f"{path}: its folder may not be written")


def os_reason(error: OSError) -> str:
    """Why the operating system refused, for a message of one line."""
    known = error.errno in errno.errorcode  # libraries have numbers of their own
    return (os.strerror(error.errno or 0) if known else first_line(error)).lower()
