"""Defaults of options from ``bassl.toml``: a table for each command, its keys the names of options."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.errors import BasslError, suggestion
from pipelines.files import os_errors, user_folder
from pipelines.options import Option


def user_file() -> Path | None:
    """Return the user's own file, in the configuration folder, or None."""
    folder = user_folder("config")
    return folder / "bassl.toml" if folder is not None and (folder / "bassl.toml").exists() else None


def command_defaults(path: Path, commands: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the defaults of a command's options that a file sets, as words of a command line. Raises BasslError, one
    line with file and key, for a file that cannot be read or is not TOML, tables of no command, unknown keys, and
    values of another type. There are none for `figure`, a group of commands."""
    try:
        with os_errors(path):
            tables = tomllib.loads(path.read_text("utf-8-sig"))
    except ValueError as error:
        raise BasslError(f"{path}: not TOML: {error}") from error
    for key, table in tables.items():
        if key not in commands or not isinstance(table, dict):
            raise BasslError(f"{path}: {key}: no table of a command, such as [predict]{suggestion(key, commands)}")
    command = commands[name]
    options: Mapping[str, Option] = getattr(command.callback, "options", {})
    by_flag = {flag: param for param in command.params if param.name in options for flag in param.opts}
    parameters = {flag[2:]: param for flag, param in by_flag.items() if flag.startswith("--")}
    defaults: dict[str, Any] = {}
    for key, value in tables.get(name, {}).items():
        word = key.replace("_", "-")
        if word not in parameters:
            raise BasslError(f"{path}: [{name}] {key}: no such option{suggestion(word, parameters)}")
        parameter = parameters[word]
        option = options[parameter.name]
        try:
            replace(option, name=key).coerce(value)
        except ValueError as error:
            raise BasslError(f"{path}: [{name}] {str(error).replace('`', '')}") from error
        words = [_as_word(item, option, path.parent) for item in (value if isinstance(value, list) else [value])]
        is_list = parameter.multiple or parameter.nargs > 1
        defaults[parameter.name] = value if option.kind is bool else words if is_list else ",".join(words)
    return defaults


def _as_word(value: Any, option: Option, folder: Path) -> str:
    """Return a value as text. A relative path is relative to the folder of the file; text that may also be a name, such
    as an encoder's, is a path if it has a separator or an extension and exists."""
    text = str(value)
    path = folder / text
    is_path = option.kind is Path or (option.kind is str and ("/" in text or path.suffix) and path.exists())
    return str(path) if is_path and text not in ("-", "default") else text
