"""Options of commands, generated from the settings dataclasses of stages."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer

from bassl_cli import console
from bassl_cli.interrupts import is_interrupt, raise_on_sigint
from bassl_cli.typer_internals import is_from_file, show_all_options
from pipelines.errors import BasslError
from pipelines.files import EMPTY_NAME, make_folder
from pipelines.options import Option, Settings, Time, option_of, options_of, with_options

S = TypeVar("S", bound=Settings)
Videos = Annotated[list[Path], typer.Argument(help="Videos, folders of videos or glob patterns.", show_default=False)]

_SPELLINGS = {
    "dask": "SCHEDULER",
    "device": "DEVICE",
    "frame_rate": "FPS",
    "index": "FILE",
    "jobs": "-j",
    "output": "-o",
    "rdzv_endpoint": "HOST:PORT",
    "threshold": "-t",
    "tolerance": "SECONDS",
    "within": "SECONDS",
    "workers": "-j",
}
"""By the name of a field, what ``--help`` shows in every command beside ``--FIELD``: a short form, a placeholder."""
_TYPES = {int: "N", float: "NUMBER", str: "NAME", Path: "PATH", Time: "TIME"}

HelpAll = Annotated[
    bool, typer.Option("--help-all", callback=show_all_options, is_eager=True, help="Also show advanced options.")
]


def _parse_path(text: str) -> Path:
    """Return a path. Raises BasslError for an empty one, which an unset variable of a shell gives."""
    if not text:
        raise BasslError(EMPTY_NAME)
    return Path(text)


def _parameter(
    option: Option, words: list[str], *, is_argument: bool, is_list: bool, panel: str | None
) -> inspect.Parameter:
    """Return the argument or option for a field of settings, with ``words`` from the spellings of `with_settings`.
    Paths, times and lists with commas are texts until the settings are made."""
    kind: Any = str if option.many or option.kind in (Path, Time) else option.kind
    default = option.default
    if kind is str and default is not None:
        default = ",".join(map(str, default)) if option.many else str(default)
    if is_list:
        kind, default = list[str], None
    text = option.help + f" One of {', '.join(option.choices)}." * bool(option.choices)
    metavar = next((word for word in reversed(words) if not word.startswith("-")), None)
    if is_argument:
        is_required = option.kind is not Path or default is None
        argument = typer.Argument(show_default=not is_required, help=text, metavar=metavar)
        return _keyword(option.name, Annotated[kind, argument], inspect.Parameter.empty if is_required else default)
    if metavar is None and option.kind is not bool:
        metavar = _TYPES[option.kind] + ",..." * (option.many and not is_list)
    flags = [word for word in words if word.startswith("-")]
    info = typer.Option(
        *[option.flag] * (not any(flag.startswith("--") for flag in flags)),
        *flags,
        show_default=default not in (None, "") or option.default_text or False,
        rich_help_panel=panel,
        hidden=option.advanced,
        help=text,
        metavar=metavar,
    )
    return _keyword(option.name, Annotated[kind | None, info], None if default == "" else default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _settings(kind: type[S], texts: Mapping[Option, Any]) -> S:
    changes = {option.name: option.parse(text) for option, text in texts.items() if text is not None}
    return with_options(kind, **changes)


def _with_file(message: str, kind: type[Settings], texts: Mapping[Option, Any], context: typer.Context) -> str:
    """Return what settings say of their values, after the configuration files without which they would be right."""
    files = {
        option: file
        for option in texts
        if (file := (context.obj or {}).get(context.info_name, {}).get(option.name))
        and is_from_file(context, option.name)
    }
    try:
        _settings(kind, {option: text for option, text in texts.items() if option not in files})
    except (ValueError, BasslError):
        return message
    return f"{', '.join(dict.fromkeys(map(str, files.values())))}: {message}"


def with_settings(
    *,
    spellings: Mapping[str, str] = {},
    arguments: Collection[str] = (),
    repeated: Collection[str] = (),
    panels: Mapping[str, str] = {},
    notes: str = "",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace each parameter of a command that is a settings dataclass by its options, and add ``--quiet``,
    ``--debug`` and ``--help-all``. For a default of None, ``--help`` shows what the documentation of the field has
    after "Default:". The command raises BasslError for values that the settings refuse.

    Args:
        spellings: by field, its flags if they are not ``--FIELD``, and its placeholder, such as ``-n N``.
        arguments: fields that are arguments and not options, required unless they are paths with a default.
        repeated: fields with several values by repeating the option, not with commas.
        panels: headings in ``--help``, by the name of a parameter, or of a field that is itself a settings dataclass.
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
                if options[parameter.name].kind is Path:
                    get_args(hint)[1].parser = _parse_path
                continue
            settings[parameter.name] = hint
            for option in options_of(hint):
                words = f"{_SPELLINGS.get(option.name, '')} {spellings.get(option.name, '')}".split()
                is_argument, is_list = option.name in arguments, option.name in repeated
                panel = panels.get(option.group or parameter.name)
                parameters.append(_parameter(option, words, is_argument=is_argument, is_list=is_list, panel=panel))
                options[option.name] = option
        parameters.append(_keyword("context", typer.Context, inspect.Parameter.empty))
        parameters.append(_keyword("quiet", console.Quiet, False))
        parameters.append(_keyword("debug", console.Debug, False))
        parameters.append(_keyword("help_all", HelpAll, False))

        def run(context: typer.Context, quiet: bool, debug: bool, help_all: bool, **values: Any) -> None:
            if str(values.get("output")).endswith(("/", os.sep)):  # which a Path does not keep
                make_folder(Path(values["output"]))
            groups: dict[str, Any] = {}
            for name, kind in settings.items():
                texts = {option: values.pop(option.name) for option in options_of(kind)}
                try:
                    groups[name] = _settings(kind, texts)
                except (ValueError, BasslError) as error:
                    raise BasslError(_with_file(str(error), kind, texts, context)) from error
            console.quiet = quiet
            console.arguments = {name: spellings.get(name, name.upper()) for name in arguments}
            try:
                raise_on_sigint()
                command(**values, **groups)
            except BaseException as error:
                if not is_interrupt(error):
                    raise
                console.print_error("interrupted")  # Typer would exit without a message
                raise typer.Exit(130) from None
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
