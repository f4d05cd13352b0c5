"""Options of commands, generated from the settings dataclasses of stages."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from bassl_cli import console
from bassl_cli.typer_internals import show_all_options
from pipelines.errors import BasslError
from pipelines.files import make_folder
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
_FIRST_PANELS = (None, "Scenes", "Output")
"""Headings of options that ``--help`` shows first; others follow in the order of the command's settings."""

_HELP_ALL: Any = {"callback": show_all_options, "is_eager": True, "help": "Also show advanced options."}
HelpAll = Annotated[bool, typer.Option("--help-all", **_HELP_ALL, **console.GENERAL)]


def _parameter(option: Option, words: list[str], *, is_argument: bool, is_repeated: bool) -> inspect.Parameter:
    """Return the argument or option for a field of settings, with ``words`` from the spellings of `with_settings`. Its
    value is text, which `Option.coerce` reads, unless it is a flag."""
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
            output = str(values.get("output"))
            groups: dict[str, Any] = {}
            for name, kind in settings.items():
                texts = {option.name: values.pop(option.name) for option in options_of(kind)}
                try:
                    groups[name] = with_options(kind, **{key: text for key, text in texts.items() if text is not None})
                except ValueError as error:
                    raise BasslError(str(error)) from error
            console.quiet = quiet
            console.arguments = {name: spellings.get(name, name.upper()) for name in arguments}
            # A Path does not keep the slash; the name may be too long for `Path.exists`.
            if is_new_folder := output.endswith(("/", os.sep)) and not os.path.exists(output):  # noqa: PTH110
                make_folder(Path(output))
            try:
                command(**values, **groups)
            finally:
                console.quiet = False
                if is_new_folder:
                    with suppress(OSError):  # something was written to it
                        Path(output).rmdir()

        paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
        folded = [" ".join(paragraph.split()) for paragraph in paragraphs]  # Typer keeps line breaks
        run.__doc__ = "\n\n".join([*folded, notes]).strip()
        run.__name__ = command.__name__
        run.options = options  # type: ignore[attr-defined]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate
