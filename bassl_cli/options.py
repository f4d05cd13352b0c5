"""Options of commands, generated from the settings dataclasses of stages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from bassl_cli import console
from bassl_cli.interrupts import is_interrupt, raise_on_sigint
from bassl_cli.typer_internals import show_all_options
from pipelines.errors import BasslError
from pipelines.options import Option, Time, options_of, parse_kind, settings_from

Videos = Annotated[list[Path], typer.Argument(help="Videos, folders of videos or glob patterns.", show_default=False)]


def named_results(sources: list[Path]) -> list[Path]:
    """The results that arguments name, see :func:`pipelines.outputs.results.expand_results`."""
    from pipelines.outputs.results import expand_results  # start-up time: other commands do not need the formats

    return expand_results(sources)


RESULTS_HELP = (
    "Videos with a result of predict, scenes.json files, or folders of these. Default: the only scenes.json in the "
    "working folder."
)
Results = Annotated[
    list[Path],
    typer.Argument(
        metavar="[VIDEO|SCENES.JSON|FOLDER]...", help=RESULTS_HELP, show_default=False, callback=named_results
    ),
]
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
"""The placeholder of the value in ``--help``, by the name of the field, in every command. Default: `_TYPES`."""
_TYPES = {int: "N", float: "NUMBER", str: "NAME", Path: "PATH", Time: "TIME"}


HelpAll = Annotated[
    bool, typer.Option("--help-all", callback=show_all_options, is_eager=True, help="Also show rarely used options.")
]


def _parameter(
    option: Option, *, is_argument: bool, words: str, metavar: str | None, panel: str | None, several: bool
) -> inspect.Parameter:
    """The argument or option of a command for a field of its settings. ``words`` are the long and short form of an
    option; an argument is required, unless it is a path with a default."""
    kind: Any = str if option.many or option.kind is Time else option.kind
    default = ",".join(map(str, option.default)) if option.many and option.default is not None else option.default
    if several:
        kind, default = list[option.kind], None  # type: ignore[name-defined]
    text, _, default_text = option.help.partition("Default: ")
    text = (text + f" One of {', '.join(option.choices)}." * bool(option.choices)).strip()
    if is_argument:
        needed = option.kind is not Path or default is None
        argument = typer.Argument(show_default=not needed, help=text, metavar=metavar)
        return _keyword(option.name, Annotated[kind, argument], inspect.Parameter.empty if needed else default)
    if default is None or default == "":
        kind, default = kind | None, None
    if metavar is None and option.kind is not bool:
        metavar = _METAVARS.get(option.name, _TYPES.get(option.kind, "") + ",..." * (option.many and not several))
    shown = default is not None or default_text.rstrip(".") or False
    flags = typer.Option(
        *words.split(), show_default=shown, rich_help_panel=panel, hidden=option.advanced, help=text, metavar=metavar
    )
    return _keyword(option.name, Annotated[kind, flags], default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_settings(
    *,
    flags: Mapping[str, str] = {},
    metavars: Mapping[str, str] = {},
    arguments: Collection[str] = (),
    repeated: Collection[str] = (),
    panels: Mapping[str, str] = {},
    notes: str = "",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace each parameter of a command that is a settings dataclass by its options, and add ``--quiet``,
    ``--debug`` and ``--help-all``. For a default of None, ``--help`` shows what the docstring of the field says after
    "Default:". The command raises BasslError for values that the settings refuse.

    Args:
        flags: by field, options that are not ``--FIELD``, such as ``--output -o``.
        metavars: by field, placeholders of values in ``--help``.
        arguments: fields that are arguments and not options, required unless they are paths with a default.
        repeated: fields with several values by repeating the option, not with commas.
        panels: headings in ``--help``, by the name of a parameter, or of a field that is itself a settings dataclass.
        notes: appended to the help.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
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
                        _parameter(
                            option,
                            is_argument=option.name in arguments,
                            words=flags.get(option.name, f"{option.flag} {_SHORT.get(option.name, '')}"),
                            metavar=metavars.get(option.name),
                            panel=panels.get(option.group or parameter.name),
                            several=several,
                        )
                    )
                    kinds[option.name] = (option.kind, option.many or several, option.choices)
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                kinds[parameter.name] = parse_kind(get_args(hint)[0])
        kinds["quiet"] = parse_kind(bool)
        parameters.append(_keyword("quiet", console.Quiet, False))
        parameters.append(_keyword("debug", console.Debug, False))
        parameters.append(_keyword("help_all", HelpAll, False))

        def run(quiet: bool, debug: bool, help_all: bool, **values: Any) -> None:
            groups: dict[str, Any] = {}
            for name, kind in settings.items():
                own = {option.name: values.pop(option.name) for option in options_of(kind)}
                try:
                    groups[name] = settings_from(kind, {key: value for key, value in own.items() if value is not None})
                except ValueError as error:
                    raise BasslError(str(error)) from error
            console.quiet = quiet
            try:
                raise_on_sigint()
                command(**values, **groups)
            except BaseException as error:
                if not is_interrupt(error):
                    raise
                console.complain("interrupted")  # Typer would exit without a message
                raise typer.Exit(130) from None
            finally:
                console.quiet = False

        paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
        folded = [" ".join(paragraph.split()) for paragraph in paragraphs]  # Typer keeps line breaks
        run.__doc__ = "\n\n".join([*folded, notes]).strip()
        run.__name__ = command.__name__
        run.kinds = kinds  # type: ignore[attr-defined]  # for the configuration file
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate
