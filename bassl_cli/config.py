"""Defaults of options from ``bassl.toml``: a table for each command, its keys the names of options.

The user's own file, in the configuration folder, and a file named with ``--config`` may set all options. A file in the
working folder or above it may have come with videos from anywhere: it sets only how scenes are found and shown.
"""

from __future__ import annotations

import os
import tomllib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.errors import BasslError, BasslWarning, suggestion
from pipelines.files import read_regular, user_folder
from pipelines.training.jobs import is_worker

NAME = "bassl.toml"
MOST_BYTES = 16 * 2**10
"""Of a file: it is passed to the processes of a job in an environment variable."""
_GROUPING = ("threshold", "min-scene", "max-scene", "drop-short", "scenes")
_IMAGES = ("images", "sprite", "format", "quality", "width", "height")
FOLDER_OPTIONS: Mapping[str, Iterable[str]] = {
    "predict": (
        *_GROUPING,
        *("detector", "detector-threshold", "min-shot", "silence", "start", "end", "duration", "report"),
    ),
    "regroup": _GROUPING,
    "export": ("csv-separator", "shots"),
    "split": ("exact", "crf", "preset", "expand", "skip-credits"),
    "save-images": (*_IMAGES, "shots", "skip-credits"),
}
"""By command, what a file in a folder may set: nothing that names a file, program or address, or what is replaced."""
# Environment variables for the processes of a job: path and text of the files that its first process read.
_READ = {"user": "BASSL_USER_CONFIG", "folder": "BASSL_CONFIG"}


@dataclass(frozen=True)
class ConfigFile:
    """A file and its tables; ``is_trusted`` if the user wrote or named it."""

    path: Path
    tables: Mapping[str, Any]
    is_trusted: bool


def read(file: Path | None) -> list[ConfigFile]:
    """Return the file alone, or else the user's own file, if there is one, and the nearest one in the working folder
    and the folders above it, which takes precedence. Raises BasslError for a file that cannot be read or is not
    TOML."""
    if is_worker() and any(name in os.environ for name in _READ.values()):
        stored = {kind: os.environ.get(name, "").partition("\n") for kind, name in _READ.items()}
        texts = {kind: (Path(path), text) for kind, (path, _, text) in stored.items() if path}
    else:
        if file is not None:
            paths = {"user": None if str(file) == os.devnull else file}
        else:
            paths = {"user": _own_file(), "folder": _folder_file()}
            if paths["folder"] and paths["user"] and paths["folder"].samefile(paths["user"]):
                del paths["folder"]
        texts = {kind: (path, _text(path)) for kind, path in paths.items() if path is not None}
    files = [ConfigFile(path, _tables(path, text), kind == "user") for kind, (path, text) in texts.items()]
    os.environ |= {
        _READ[kind]: f"{path}\n{text}" for kind, (path, text) in {**dict.fromkeys(_READ, ("", "")), **texts}.items()
    }
    return files


def _own_file() -> Path | None:
    folder = user_folder("config")
    return folder / NAME if folder is not None and (folder / NAME).exists() else None


def _folder_file() -> Path | None:
    """Return the nearest file in the working folder and above it; above it, only the user's own files count."""
    try:
        working_folder = Path.cwd()
    except FileNotFoundError as error:
        raise BasslError("the working folder does not exist any more; change to another") from error
    user = getattr(os, "geteuid", lambda: 0)()  # Windows has none, and each file the owner 0
    for folder in (working_folder, *working_folder.parents):
        path = folder / NAME
        if not os.path.exists(path) or os.path.isdir(path):  # noqa: PTH110, PTH112  # a folder may be closed
            continue
        if folder == working_folder or {path.stat().st_uid, path.lstat().st_uid} == {user}:
            return path
        warnings.warn(BasslWarning(f"{path}: belongs to another user and is not read"), stacklevel=2)
    return None


def _text(path: Path) -> str:
    try:
        return read_regular(path, MOST_BYTES, BasslError).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BasslError(f"{path}: not TOML: {error}") from error


def _tables(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else error
        raise BasslError(f"{path}: not TOML: {reason}") from error


Defaults = tuple[dict[str, Any], dict[str, Any]]
"""Values by option and the files that set them; nested for subcommands."""


def command_defaults(files: Sequence[ConfigFile], commands: Mapping[str, Any], name: str) -> Defaults:
    """Return the defaults of a command's options from the files; a later one takes precedence. Raises BasslError, one
    line with file and key, for tables of no command, unknown keys, values that do not fit, and options that a file in a
    folder must not set."""
    values: dict[str, Any] = {}
    sources: dict[str, Any] = {}
    for file in files:
        for key, table in file.tables.items():
            if key not in commands or not isinstance(table, dict):
                raise BasslError(
                    f"{file.path}: {key}: no table of a command, such as [predict]{suggestion(key, commands)}"
                )
        defaults = _table_defaults(file, name, file.tables.get(name, {}), commands[name])
        values |= defaults
        sources |= {
            key: dict.fromkeys(value, file.path) if isinstance(value, dict) else file.path
            for key, value in defaults.items()
        }
    return values, sources


def _table_defaults(file: ConfigFile, name: str, table: Mapping[str, Any], command: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    path = file.path
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
            raise BasslError(f"{path}: [{name}] {key}: no such {kind}{suggestion(word, options)}")
        if subcommands:
            defaults[word] = _table_defaults(file, f"{name}.{word}", value, options[word])
            continue
        if not file.is_trusted and word not in FOLDER_OPTIONS.get(name, ()):
            own = user_folder("config")
            place = f", or in {own / NAME}" if own else ""
            raise BasslError(
                f"{path}: [{name}] {key}: a folder's file may not set this; set it on the command line{place}, or name "
                "the file with --config"
            )
        parameter = options[word]
        option = replace(command.callback.options[parameter.name], name=key)
        try:
            option.coerce(value)
        except ValueError as error:
            message = str(error).replace("`", "")  # which mark options of the command line
            raise BasslError(f"{path}: [{name}] {message}") from error
        values = value if isinstance(value, list) else [value]
        if any(
            (isinstance(one, int) and abs(one) >= 2**63) or (isinstance(one, str) and "\0" in one) for one in values
        ):
            raise BasslError(f"{path}: [{name}] {key}: no command line could have this value")
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
