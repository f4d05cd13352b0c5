"""Options of commands, generated from the settings dataclasses of stages."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from bassl_cli import console
from bassl_cli.interrupts import is_interrupt, raise_on_sigint
from bassl_cli.typer_internals import show_all_options
from pipelines.errors import BasslError
from pipelines.options import Option, Time, kind_of, options_of, settings_from

Command = Callable[..., None]
Videos = Annotated[list[Path], typer.Argument(help="Videos, folders of videos or glob patterns.", show_default=False)]


def leave_out_exports(files: list[Path]) -> list[Path]:
    """The files of scenes among files that the shell found. Raises BasslError for a folder alone."""
    if len(files) == 1 and os.path.isdir(files[0]):  # noqa: PTH112  # Path.is_dir raises for a name that is too long
        raise BasslError(f"{files[0]}: is a folder; name files of scenes in it, such as {files[0]}/*.json")
    from pipelines.outputs.exports import without_exports  # start-up time: other commands do not need the formats

    return without_exports(files)


SceneFile = Annotated[Path, typer.Argument(metavar="SCENES.JSON", help="Scenes, as predict or a page wrote them.")]
SceneFiles = Annotated[
    list[Path],
    typer.Argument(metavar="SCENES.JSON", help="Scenes, as predict or a page wrote them.", callback=leave_out_exports),
]
SCENES = Path("scenes.json")
_SHORT = {"output": "-o", "threshold": "-t", "jobs": "-j", "workers": "-j"}
"""The short form of an option, by the name of its field, in every command."""
_METAVARS = {
    "dask": "SCHEDULER",
    "device": "DEVICE",
    "frame_rate": "FPS",
    "index": "FILE",
    "rdzv_endpoint": "HOST:PORT",
    "tolerance": "SECONDS",
    "within": "SECONDS",
}
"""The placeholder of the value in ``--help``, by the name of the field, in every command; else that of its type."""
_TYPES = {int: "N", float: "NUMBER", str: "NAME", Path: "PATH", Time: "TIME"}


HelpAll = Annotated[
    bool, typer.Option("--help-all", callback=show_all_options, is_eager=True, help="Also show rarely used options.")
]


def _argument(option: Option, metavar: str | None, several: bool) -> inspect.Parameter:
    """The argument of a command for a field of its settings; required, unless it is a path with a default."""
    default = None if several else option.shown
    if option.kind is not Path or default is None:
        default = inspect.Parameter.empty
    needed = default is inspect.Parameter.empty
    shown = typer.Argument(show_default=not needed, help=_help_of(option)[0], metavar=metavar)
    return _keyword(option.name, Annotated[_type_of(option, several), shown], default)


def _option(
    option: Option, *, words: Sequence[str], metavar: str | None, panel: str | None, several: bool
) -> inspect.Parameter:
    """The option of a command for a field of its settings. ``words`` are its long and short form."""
    kind, default = _type_of(option, several), None if several else option.shown
    if default is None or default == "":
        kind, default = kind | None, None
    if metavar is None and option.kind is not bool:
        metavar = _METAVARS.get(option.name, _TYPES.get(option.kind, "") + ",..." * (option.many and not several))
    text, shown_default = _help_of(option)
    says = default is not None or shown_default.rstrip(".") or False
    shown = typer.Option(
        *words, show_default=says, rich_help_panel=panel, hidden=option.rare, help=text, metavar=metavar
    )
    return _keyword(option.name, Annotated[kind, shown], default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _type_of(option: Option, several: bool) -> Any:
    if several:
        return list[option.kind]  # type: ignore[name-defined]
    return str if option.many or option.kind is Time else option.kind


def _help_of(option: Option) -> tuple[str, str]:
    """The help of a field, and what its docstring says to be the default."""
    text, _, default = option.help.partition("Default: ")
    return (text + f" One of {', '.join(option.choices)}." * bool(option.choices)).strip(), default


def with_settings(
    *,
    flags: Mapping[str, str] = {},
    metavars: Mapping[str, str] = {},
    arguments: Collection[str] = (),
    repeated: Collection[str] = (),
    panels: Mapping[str, str] = {},
    notes: str = "",
) -> Callable[[Command], Command]:
    """Replace each parameter of a command that is a settings dataclass by its options, and add ``--debug``, and
    ``--help-all`` if some of the options are rare.

    The command is called with the settings. An option that is left out has the default of its field; if that is None,
    ``--help`` shows what the field's docstring says after "Default:". ``flags`` has,
    by field, options that are not ``--FIELD``, such as ``--output -o``; ``metavars`` placeholders of values in
    ``--help``. Fields in ``arguments`` are arguments and not options, required unless they are paths with a
    default. Options in ``repeated`` have several values by repeating the option, not with commas. ``panels`` are
    headings in ``--help``, by the name of a parameter, or of a field that is itself a settings dataclass. ``notes`` are
    appended to the help. The command raises BasslError for values that the settings refuse.
    """

    def decorate(command: Command) -> Command:
        parameters: list[inspect.Parameter] = []
        settings: dict[str, Any] = {}
        kinds: dict[str, Any] = {}
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            hint: Any = parameter.annotation
            if inspect.isclass(hint) and is_dataclass(hint):
                settings[parameter.name] = hint
                for option in options_of(hint):
                    several = option.name in repeated
                    parameters.append(
                        _argument(option, metavars.get(option.name), several)
                        if option.name in arguments
                        else _option(
                            option,
                            words=flags.get(option.name, f"{option.flag} {_SHORT.get(option.name, '')}").split(),
                            metavar=metavars.get(option.name),
                            panel=panels.get(option.group or parameter.name),
                            several=several,
                        )
                    )
                    kinds[option.name] = (option.kind, option.many or several, option.choices)
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                kinds[parameter.name] = kind_of(get_args(hint)[0])
        parameters.append(_keyword("debug", console.Debug, False))
        if any(option.rare for kind in settings.values() for option in options_of(kind)):
            parameters.append(_keyword("help_all", HelpAll, False))

        def run(debug: bool, help_all: bool = False, **values: Any) -> None:
            groups: dict[str, Any] = {}
            for name, kind in settings.items():
                own = {option.name: values.pop(option.name) for option in options_of(kind)}
                try:
                    groups[name] = settings_from(kind, {key: value for key, value in own.items() if value is not None})
                except ValueError as error:
                    raise BasslError(str(error)) from error
            try:
                raise_on_sigint()
                command(**values, **groups)
            except BaseException as error:
                if not is_interrupt(error):
                    raise
                console.complain("interrupted")  # Typer would exit without a message
                raise typer.Exit(130) from None

        paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
        folded = [" ".join(paragraph.split()) for paragraph in paragraphs]  # Typer keeps line breaks
        run.__doc__ = "\n\n".join([*folded, notes]).strip()
        run.__name__ = command.__name__
        run.kinds = kinds  # type: ignore[attr-defined]  # for the configuration file
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate
