"""Options of commands, generated from the settings dataclasses of stages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from bassl_cli import console
from bassl_cli.interrupts import raise_again
from pipelines.errors import BasslError
from pipelines.options import Option, Time, kind_of, options_of, settings_from

Command = Callable[..., None]
Films = Annotated[list[Path], typer.Argument(help="Videos, folders of videos or glob patterns.", show_default=False)]

SceneFile = Annotated[Path, typer.Argument(metavar="SCENES.JSON", help="Scenes, as predict or a page wrote them.")]
SceneFiles = Annotated[
    list[Path], typer.Argument(metavar="SCENES.JSON", help="Scenes, as predict or a page wrote them.")
]
SCENES = Path("scenes.json")
_SHORT = {"output": "-o", "threshold": "-t", "workers": "-j"}
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
"""What stands for the value in ``--help``, by the name of the field, in every command; else what its type is."""
_TYPES = {int: "N", float: "NUMBER", str: "NAME", Path: "PATH", Time: "TIME"}


class Plain:
    """Help of a click command with words for values, and none where nothing follows; Typer's own names Python types."""

    def get_params(self, context: Any) -> Any:
        params = super().get_params(context)  # type: ignore[misc]
        for one in params:
            if one.param_type_name == "argument":
                one.display_type_rich = lambda ctx: ""
                one.metavar = one.metavar or one.name.upper()
            elif one.metavar is None and one.is_flag:
                one.metavar = ""
            elif one.metavar is None and one.name in _METAVARS:
                one.metavar = _METAVARS[one.name]
            elif one.metavar is None:
                kind, many, _ = self.callback.kinds[one.name]  # type: ignore[attr-defined]
                one.metavar = _TYPES[kind] + ",..." * (many and not one.multiple)
        return params


class PlainCommand(Plain, TyperCommand):
    """A command with plain help."""


class PlainGroup(Plain, TyperGroup):
    """A group of commands with plain help."""


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        options: list[Any] = list(context.command.params)
        for one in options:
            one.hidden = one.name == "help_all"
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option("--help-all", callback=_show_all, is_eager=True, help="Also show options that most runs leave alone."),
]


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
    ``--help-all`` where some of the options are rare.

    The command is called with the settings made of them. An option that is not given leaves the default of its field;
    where that is None, the rest of the field's docstring after "Unless given:" is shown as the default. ``flags`` and
    ``metavars`` are by field the option where it is not ``--FIELD``, such as ``--output -o``, and what stands for the
    value in ``--help``. Fields in ``arguments`` are arguments and not options; they must be given, unless they are
    paths with a default. Those in ``repeated`` have several values, given by repeating the option, not with commas.
    ``panels`` are headings in ``--help``, by the name of a parameter, or of a field that is itself a settings
    dataclass. ``notes`` follow in ``--help``. The command raises BasslError for values that the settings refuse.
    """

    def parameter_of(option: Option, holder: str) -> inspect.Parameter:
        several = option.name in repeated
        text_only = option.many or option.kind is Time
        kind: Any = list[option.kind] if several else str if text_only else option.kind  # type: ignore[name-defined]
        default = None if several else option.shown
        text, _, unless_given = option.help.partition("Unless given: ")
        if option.choices:
            text += f" One of {', '.join(option.choices)}."
        shown: dict[str, Any] = {
            "help": text.strip(),
            "metavar": metavars.get(option.name),
        }
        if option.name in arguments:
            needed = option.kind is not Path or default is None
            annotation: Any = Annotated[kind, typer.Argument(show_default=not needed, **shown)]
            default = inspect.Parameter.empty if needed else default
            return inspect.Parameter(
                option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
        if default is None or default == "":
            kind, default = kind | None, None
        words = flags.get(option.name, f"{option.flag} {_SHORT.get(option.name, '')}").split()
        panel = panels.get(option.group or holder)
        says = default is not None or unless_given.rstrip(".") or False
        described = typer.Option(*words, show_default=says, rich_help_panel=panel, hidden=option.rare, **shown)
        annotation = Annotated[kind, described]
        return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    def decorate(command: Command) -> Command:
        parameters: list[inspect.Parameter] = []
        settings: dict[str, Any] = {}
        kinds: dict[str, Any] = {}
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            hint: Any = parameter.annotation
            if inspect.isclass(hint) and is_dataclass(hint):
                settings[parameter.name] = hint
                for option in options_of(hint):
                    parameters.append(parameter_of(option, parameter.name))
                    kinds[option.name] = (option.kind, option.many or option.name in repeated, option.choices)
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                kinds[parameter.name] = kind_of(get_args(hint)[0])
        further = {"debug": console.Debug}
        if any(option.rare for kind in settings.values() for option in options_of(kind)):
            further["help_all"] = HelpAll
        for name, kind in further.items():
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind))

        def run(debug: bool, help_all: bool = False, **given: Any) -> None:
            made: dict[str, Any] = {}
            for name, kind in settings.items():
                values = {option.name: given.pop(option.name) for option in options_of(kind)}
                try:
                    made[name] = settings_from(kind, {key: value for key, value in values.items() if value is not None})
                except ValueError as error:
                    raise BasslError(str(error)) from error
            raise_again()
            try:
                command(**given, **made)
            except KeyboardInterrupt:  # Typer would end without a word
                console.complain("interrupted")
                raise typer.Exit(130) from None

        paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
        folded = [" ".join(paragraph.split()) for paragraph in paragraphs]  # Typer keeps line ends
        run.__doc__ = "\n\n".join([*folded, notes]).strip()
        run.__name__ = command.__name__
        run.kinds = kinds  # type: ignore[attr-defined]  # for the configuration file
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate
