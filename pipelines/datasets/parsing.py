"""Parsing of text, numbers and JSON of label files; any fault becomes a `DatasetError`, one line."""

import json
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pipelines.errors import DatasetError, printable
from pipelines.files import MOST_BYTES, os_errors, read_regular
from pipelines.scenes import MAX_POSITION

T = TypeVar("T")

MAX_LINE_BYTES = 2**16  # maximum length of a line in files that are read line by line


def fault(path: Path, what: str, line: int | None = None) -> DatasetError:
    """Return a `DatasetError` about a file: one line of printable characters, others escaped."""
    message = f"{path}: {what}" if line is None else f"{path}, line {line}: {what}"
    return DatasetError(printable(message))


def quote(text: str) -> str:
    """Return the beginning of a text from a file, for a message."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def text_lines(path: Path, most: int = MOST_BYTES) -> Iterator[tuple[int, str]]:
    """Read the non-blank lines of a UTF-8 file of at most ``most`` bytes, stripped, with their numbers from 1, in
    bounded memory.

    A byte-order mark and Windows line ends are accepted. Raises DatasetError: the file cannot be opened, is not text,
    too large, or has a line that is too long.
    """
    with os_errors(path, kind=DatasetError):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device could block forever
            raise fault(path, "is not a file")
        if status.st_size > most:
            raise fault(path, f"is larger than {most // 2**20} MB, too large for a file of this kind")
        with path.open("rb") as file:
            for number, data in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
                if len(data) > MAX_LINE_BYTES:
                    raise fault(path, "the line is too long for a file of this kind", number)
                if line := _decode_text(data, path, number).strip():
                    yield number, line


def read_text(path: Path) -> str:
    """Read a UTF-8 file without its byte-order mark; line ends are kept. Raises DatasetError: the file cannot be
    opened, is not text or larger than `MOST_BYTES`."""
    with os_errors(path, kind=DatasetError):
        return _decode_text(read_regular(path), path, 1)


def _decode_text(data: bytes, path: Path, line: int) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fault(path, "is not UTF-8 text", line + data.count(b"\n", 0, error.start)) from error
    return text.removeprefix("\ufeff") if line == 1 else text


def parse_int(text: str, what: str, path: Path, line: int | None = None) -> int:
    """Parse a decimal integer; `what` it should be is for the message. Raises DatasetError: another text (Python's
    `int` also takes `1_000` and digits of other scripts), or too large."""
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise fault(path, f"{quote(text)} is not {what}", line)
    return check_type(int, int(text), what, path, line)


def read_json(path: Path) -> Any:
    """Read the content of a JSON file; see `read_text` and `parse_json`."""
    return parse_json(read_text(path), path)


def parse_json(text: str, path: Path, line: int | None = None) -> Any:
    """Parse JSON strictly: no NaN, no infinity, no duplicate keys. Raises DatasetError otherwise."""
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            parse_int=_bounded_int,
            object_pairs_hook=_unique_keys,
        )
    except RecursionError as error:
        raise fault(path, "is not usable JSON: nested too deeply", line) from error
    except json.JSONDecodeError as error:
        raise fault(path, f"is not JSON: {error.msg} at column {error.colno}", line or error.lineno) from error
    except ValueError as error:
        raise fault(path, f"is not usable JSON: {error}", line) from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite_float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{quote(text)} is too large a number")
    return value


def _bounded_int(text: str) -> int:
    if len(text) > 20:  # more than 64 bits
        raise ValueError(f"{quote(text)} is too large a number")
    return int(text)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return values


def member(value: Any, key: str, what: str, path: Path, line: int | None = None) -> Any:
    """Return `value[key]` of a JSON object called `what` in messages.

    Raises DatasetError: `value` is not an object, or lacks the key.
    """
    if not isinstance(value, dict):
        raise fault(path, f"{what} is not an object", line)
    if key not in value:
        raise fault(path, f"{what} has no {key!r}", line)
    return value[key]


def check_type(kind: type[T], value: Any, what: str, path: Path, line: int | None = None) -> T:
    """Return a JSON value as `kind`: int, float, bool, str or list. An integer may be written as 5.0. `what` it should
    be is for the message. Raises DatasetError: another type, or a number beyond `MAX_POSITION`."""
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    valid = isinstance(value, int | float if kind is float else kind) and isinstance(value, bool) == (kind is bool)
    if not valid or (isinstance(value, int | float) and not abs(value) <= MAX_POSITION):
        raise fault(path, f"{_describe(value)} is not {what}", line)
    return kind(value)  # type: ignore[call-arg]


def read_field(kind: type[T], value: Any, key: str, of: str, path: Path, line: int | None = None) -> T:
    """Return `value[key]` of a JSON object called `of` in messages, see `check_type`. Raises DatasetError also if
    `value` is not an object, or lacks the key."""
    return check_type(kind, member(value, key, of, path, line), f"the {key} of {of}", path, line)


def _describe(value: Any) -> str:
    """Return a JSON value for a message. Containers are not printed, as they can be huge or deeply nested."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, str):
        return quote(value)
    large = isinstance(value, int | float) and abs(value) > MAX_POSITION
    return "a number that large" if large else json.dumps(value)


def list_files(folder: Path, suffix: str) -> dict[str, Path]:
    """Return the files of a folder whose names end with `suffix`, by name without it; {} if there is no folder.
    Hidden files are left out. Raises DatasetError if the folder cannot be listed."""
    names = [name for name in list_names(folder) if name.endswith(suffix)]
    return {name.removesuffix(suffix): folder / name for name in names}


def list_names(folder: Path) -> list[str]:
    """Return the sorted names in a folder except hidden ones, without a stat of each; [] if there is no folder.
    Raises DatasetError: the folder cannot be listed."""
    with os_errors(folder, "cannot be listed", DatasetError), suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208
    return []
