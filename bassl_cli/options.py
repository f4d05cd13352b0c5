"""Options of commands, generated from the settings dataclasses of stages; and their defaults from ``bassl.toml``, which
has a table for each command, its keys the names of options."""

from __future__ import annotations

import inspect
import os
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from bassl_cli import console
from bassl_cli.typer_internals import show_all_options
from pipelines.errors import BasslError, suggestion
from pipelines.files import make_folder, os_errors, user_folder
from pipelines.options import Option, Time, option_of, options_of, with_options

Videos = Annotated[list[Path], typer.Argument(help="Videos, folders of videos or glob patterns.", show_default=False)]

_SPELLINGS = {
    "dask": "SCHEDULER",
    "jobs": "-j",
    "output": "-o",
    "rdzv_endpoint": "HOST:PORT",
    "threshold": "-t",
    "workers": "-j",
}
"""By the name of a field, what ``--help`` shows in every command beside ``--FIELD``: a short form, a placeholder."""
_TYPES = {int: "N", float: "NUMBER", str: "NAME", Path: "PATH", Time: "TIME"}
_FIRST_PANELS = (None, "Scenes", "Output")  # headings that ``--help`` shows first

_HELP_ALL: Any = {"callback": show_all_options, "is_eager": True, "help": "Also show advanced options."}
HelpAll = Annotated[bool, typer.Option("--help-all", **_HELP_ALL, **console.GENERAL)]


def _parameter(option: Option, words: list[str], *, is_argument: bool, is_repeated: bool) -> inspect.Parameter:
    """Return the argument or option for a field of settings: text for `Option.coerce`, unless it is a flag."""
    kind: Any = bool if option.kind is bool else str
    default = option.default
    if kind is str and default is not None:
        default = ",".join(map(str, default)) if option.many else str(default)
    if is_repeated:
        kind, default = list[str], None
    text = option.help + f" One of: {' '.join(option.choices)}." * bool(option.choices)
    metavar = next((word for word in reversed(words) if not word.startswith("-")), None)
    if is_argument:
        is_required = option.kind is not Path or default is None
        argument = typer.Argument(show_default=not is_required, help=text, metavar=metavar)
        return _keyword(option.name, Annotated[kind, argument], inspect.Parameter.empty if is_required else default)
    if metavar is None and option.kind is not bool:
        metavar = _TYPES[option.kind] + ",..." * (option.many and not is_repeated)
    flags = [word for word in words if word.startswith("-")]
    info = typer.Option(
        *["--" + option.name.replace("_", "-")] * (not any(flag.startswith("--") for flag in flags)),
        *flags,
        show_default=default not in (None, "") or option.default_text or False,
        rich_help_panel=option.heading or None,
        hidden=option.advanced,
        help=text,
        metavar=metavar,
    )
    return _keyword(option.name, Annotated[kind | None, info], None if default == "" else default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _panel_rank(parameter: inspect.Parameter) -> int:
    panel = get_args(parameter.annotation)[1].rich_help_panel
    return _FIRST_PANELS.index(panel) if panel in _FIRST_PANELS else len(_FIRST_PANELS)


def with_settings(
    *,
    spellings: Mapping[str, str] = {},
    arguments: Collection[str] = (),
    repeated: Collection[str] = (),
    notes: str = "",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace each parameter of a command that is a settings dataclass by its options, and add ``--quiet``,
    ``--debug`` and, if there are advanced options, ``--help-all``. For a default of None, ``--help`` shows what the
    documentation of the field has after "Default:". The command raises BasslError for values that the settings refuse.

    Args:
        spellings: by field, its flags if they are not ``--FIELD``, and its placeholder, such as ``-n N``.
        arguments: fields that are arguments and not options, required unless they are paths with a default.
        repeated: fields with several values by repeating the option, not with commas.
        notes: appended to the help.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        settings: dict[str, Any] = {}
        options = {"quiet": Option("quiet", bool)}  # of the configuration file
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            hint: Any = parameter.annotation
            if not is_dataclass(hint):
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                options[parameter.name] = option_of(parameter.name, hint)
                continue
            settings[parameter.name] = hint
            for option in options_of(settings[parameter.name]):
                words = f"{_SPELLINGS.get(option.name, '')} {spellings.get(option.name, '')}".split()
                is_argument, is_repeated = option.name in arguments, option.name in repeated
                parameters.append(_parameter(option, words, is_argument=is_argument, is_repeated=is_repeated))
                options[option.name] = option
        parameters.append(_keyword("quiet", console.Quiet, False))
        parameters.append(_keyword("debug", console.Debug, False))
        if any(option.advanced for option in options.values()):
            parameters.append(_keyword("help_all", HelpAll, False))
        parameters.sort(key=_panel_rank)

        def run(quiet: bool, debug: bool, help_all: bool = False, **values: Any) -> None:
            groups, output = dict[str, Any](), str(values.get("output"))
            for name, kind in settings.items():
                texts = {option.name: values.pop(option.name) for option in options_of(kind)}
                try:
                    groups[name] = with_options(kind, **{key: text for key, text in texts.items() if text is not None})
                except ValueError as error:
                    raise BasslError(str(error)) from error
            console.quiet = quiet
            console.arguments = {name: spellings.get(name, name.upper()) for name in arguments}
            if output.endswith(("/", os.sep)):  # a Path does not keep the slash
                make_folder(Path(output))
            try:
                command(**values, **groups)
            finally:
                console.quiet = False

        paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
        folded = [" ".join(paragraph.split()) for paragraph in paragraphs]  # Typer keeps line breaks
        run.__doc__ = "\n\n".join([*folded, notes]).strip()
        run.__name__ = command.__name__
        run.options = options  # type: ignore[attr-defined]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def user_file() -> Path | None:
    """Return the user's own file, in the configuration folder, or None."""
    folder = user_folder("config")
    return folder / "bassl.toml" if folder is not None and (folder / "bassl.toml").exists() else None


def command_defaults(path: Path, commands: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the defaults of a command's options that a file sets, as words of a command line. Raises BasslError, one
    line with file and key, for a file that sets anything else. `figure`, a group of commands, has none."""
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
        text = words if parameter.multiple else ",".join(words)
        defaults[parameter.name] = value if option.kind is bool else text
    return defaults


def _as_word(value: Any, option: Option, folder: Path) -> str:
    """Return a value as text. A relative path is relative to the folder of the file; text that may also be a name, such
    as an encoder's, is a path if it has a separator or an extension and exists."""
    text = str(value)
    path = folder / text
    is_path = option.kind is Path or (option.kind is str and ("/" in text or path.suffix) and path.exists())
    return str(path) if is_path and text not in ("-", "default") else text
