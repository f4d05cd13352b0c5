"""Defaults of options from a file, ``bassl.toml``: a table for each command, its keys the names of options."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from bassl_cli.typer_internals import options_by_flag, set_default
from pipelines.errors import BasslError
from pipelines.files import os_reason
from pipelines.options import Time
from pipelines.training.jobs import is_worker

NAME = "bassl.toml"
_READ = "BASSL_CONFIG"
"""Environment variable for the processes of a job: path and text of the file that its first process read."""
_VALUES: dict[type, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    str: (str, "text"),
    Path: (str, "a path, as text"),
    Time: (int | float | str, "seconds or a timecode"),
}
"""By the type of an option, the types of its values in the file, and their name."""


def read(file: Path | None) -> tuple[Path, str] | None:
    """Path and text of the file, or if it is None of the nearest one in the working folder and the folders above it;
    None if there is none. Raises BasslError for a file that cannot be read."""
    if is_worker() and _READ in os.environ:
        name, _, text = os.environ[_READ].partition("\n")
        return (Path(name), text) if name else None
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise BasslError("the working folder does not exist any more; change to another") from error
    path = file or next((path for folder in (here, *here.parents) if (path := folder / NAME).is_file()), None)
    try:
        text = path.read_text(encoding="utf-8") if path else ""
    except OSError as error:
        raise BasslError(f"{path}: cannot be read ({os_reason(error)})") from error
    except UnicodeDecodeError as error:
        raise BasslError(f"{path}: not a text file in UTF-8") from error
    if "\0" in text:  # which no environment variable can hold
        raise BasslError(f"{path}: not a text file in UTF-8")
    os.environ[_READ] = f"{path or ''}\n{text}"
    return (path, text) if path else None


def apply(path: Path, text: str, commands: Mapping[str, Any], name: str) -> bool:
    """Set the defaults of a command's options from the file; return whether the file has a table for the command. For
    other commands only the name of the table is checked. Raises BasslError, one line with file and key, for a file
    that is not TOML, for unknown keys and for values that do not fit."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BasslError(f"{path}: not TOML: {error}") from error
    for key, table in tables.items():
        if key not in commands or not isinstance(table, dict):
            raise BasslError(f"{path}: {key}: no table of a command, such as [predict]{_suggestion(key, commands)}")
    _apply(path, name, tables.get(name, {}), commands[name])
    return name in tables


def _apply(path: Path, name: str, table: Mapping[str, Any], command: Any) -> None:
    within = getattr(command, "commands", None)
    options = within or options_by_flag(command)
    for key, value in table.items():
        word = key.replace("_", "-")
        if word not in options or isinstance(value, dict) != bool(within):
            kind = "command" if within else "option"
            raise BasslError(f"{path}: [{name}] {key}: no such {kind}{_suggestion(word, options)}")
        if within:
            _apply(path, f"{name}.{word}", value, within[word])
            continue
        option = options[word]
        kind, many, choices = command.callback.kinds[option.name]
        together = option.nargs > 1  # such as --compare A B
        values = value if many and isinstance(value, list) else [value]
        if together and len(values) != option.nargs:
            raise BasslError(f"{path}: [{name}] {key}: must be a list of {option.nargs}")
        types, words = _VALUES[kind]
        for item in values:
            if not isinstance(item, types) or isinstance(item, bool) != (kind is bool) or (kind, item) == (Path, ""):
                raise BasslError(f"{path}: [{name}] {key}: must be {'a list, each ' * many}{words}, not {item!r}")
            if choices and item not in choices:
                raise BasslError(f"{path}: [{name}] {key}: must be one of {', '.join(choices)}, not {item!r}")
        if kind in (str, Path):
            values = [_resolve(path.absolute().parent, item, kind) for item in values]
        set_default(option, values, many, word)


def _resolve(folder: Path, text: str, kind: type) -> str:
    """A relative path, resolved against the folder of the file. Text that may also be a name, such as an encoder's, is
    a path if it has a separator or an extension and exists."""
    path = folder / text
    named = kind is str and not (("/" in text or path.suffix) and path.exists())
    return text if named or text in ("-", "default") else str(path)


def _suggestion(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, known, 1)
    return f"; did you mean {close[0]}?" if close else ""
