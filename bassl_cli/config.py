"""Defaults of options from a file, ``bassl.toml``: a table for each command, its keys the names of options."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pipelines.errors import BasslError
from pipelines.files import os_reason
from pipelines.training.jobs import is_worker

NAME = "bassl.toml"
# Environment variable for the processes of a job: path and text of the file that its first process read.
_READ = "BASSL_CONFIG"


def read(file: Path | None) -> tuple[Path, dict[str, Any]] | None:
    """Return path and tables of the file, or of the nearest one in the working folder and the folders above it, or
    None. Raises BasslError for a file that cannot be read or is not TOML."""
    if is_worker() and _READ in os.environ:
        name, _, text = os.environ[_READ].partition("\n")
        return (Path(name), tomllib.loads(text)) if name else None
    try:
        folder = Path.cwd()
    except FileNotFoundError as error:
        raise BasslError("the working folder does not exist any more; change to another") from error
    path = file or next((path for each in (folder, *folder.parents) if (path := each / NAME).is_file()), None)
    try:
        text = path.read_text(encoding="utf-8") if path else ""
        tables = tomllib.loads(text)
    except OSError as error:
        raise BasslError(f"{path}: cannot be read ({os_reason(error)})") from error
    except ValueError as error:  # of the encoding or the syntax
        raise BasslError(f"{path}: not TOML: {error}") from error
    os.environ[_READ] = f"{path or ''}\n{text}"
    return (path, tables) if path else None


def command_defaults(path: Path, tables: Mapping[str, Any], commands: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the defaults of a command's options from the file. Raises BasslError, one line with file and key, for
    tables of no command, unknown keys and values that do not fit."""
    for key, table in tables.items():
        if key not in commands or not isinstance(table, dict):
            raise BasslError(f"{path}: {key}: no table of a command, such as [predict]{_suggest(key, commands)}")
    return _table_defaults(path, name, tables.get(name, {}), commands[name])


def _table_defaults(path: Path, name: str, table: Mapping[str, Any], command: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    subcommands = getattr(command, "commands", None)
    options = subcommands or {
        flag.removeprefix("--"): parameter
        for parameter in command.params
        for flag in parameter.opts
        if flag.startswith("--") and parameter.name in command.callback.options
    }
    for key, value in table.items():
        word = key.replace("_", "-")
        if word not in options or isinstance(value, dict) != bool(subcommands):
            kind = "command" if subcommands else "option"
            raise BasslError(f"{path}: [{name}] {key}: no such {kind}{_suggest(word, options)}")
        if subcommands:
            defaults[word] = _table_defaults(path, f"{name}.{word}", value, options[word])
            continue
        parameter = options[word]
        option = replace(command.callback.options[parameter.name], name=key)
        try:
            option.coerce(value)
        except ValueError as error:
            message = str(error).replace("`", "")  # which mark options of the command line
            raise BasslError(f"{path}: [{name}] {message}") from error
        values = value if isinstance(value, list) else [value]
        if parameter.nargs > 1 and len(values) != parameter.nargs:  # such as --compare A B
            raise BasslError(f"{path}: [{name}] {key} must be a list of {parameter.nargs}")
        if option.kind in (str, Path):
            values = [_resolve(path.parent, item, option.kind) if isinstance(item, str) else item for item in values]
        is_list = parameter.multiple or parameter.nargs > 1
        is_value = option.kind in (bool, int, float) and not option.many
        defaults[parameter.name] = values if is_list else values[0] if is_value else ",".join(map(str, values))
    return defaults


def _resolve(folder: Path, text: str, kind: type) -> str:
    """Resolve a relative path against the folder of the file. Text that may also be a name, such as an encoder's, is a
    path if it has a separator or an extension and exists."""
    path = folder / text
    is_name = kind is str and not (("/" in text or path.suffix) and path.exists())
    return text if is_name or text in ("-", "default") else str(path)


def _suggest(word: str, names: Iterable[str]) -> str:
    close = get_close_matches(word, names, 1)
    return f"; did you mean {close[0]}?" if close else ""
