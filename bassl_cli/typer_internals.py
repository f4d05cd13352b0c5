"""All that relies on the inside of Typer, which its documentation does not promise: works with Typer 0.26.8 to 0.29.2.

Typer 0.26 and newer have their own copy of click; nothing here imports either, because both copies have these names.
A job of the workflow runs the tests of the command line with the newest Typer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from pipelines.errors import BasslError
from pipelines.files import EMPTY_NAME, is_file, make_folder


class Plain:
    """Help of a command without the names of Python types, which Typer shows as placeholders of values. An empty path
    is refused. An output that ends with a slash is made a folder. If an unknown option is the name of a file, the
    message says how to write that."""

    params: list[Any]

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        typed = args.copy()
        try:
            values = self.make_parser(context).parse_args(args.copy())[0]  # type: ignore[attr-defined]
            kinds = getattr(self.callback, "kinds", {})  # type: ignore[attr-defined]
            paths = [values.get(name) for name, (kind, *_) in kinds.items() if kind is Path]
            # An unset variable of a shell gives an empty path.
            if any("" in (path if isinstance(path, list | tuple) else [path]) for path in paths):
                raise BasslError(EMPTY_NAME)
            rest: list[str] = super().parse_args(context, args)  # type: ignore[misc]
            if str(values.get("output")).endswith(("/", os.sep)):  # which a Path does not keep
                make_folder(Path(values["output"]))
            return rest
        except Exception as error:
            files = [text for text in typed if text.startswith("-") and is_file(Path(text))]
            if files and hasattr(error, "option_name"):  # NoSuchOption, of click or of Typer's copy
                error.message += f"; the file is written ./{files[0]}"  # type: ignore[attr-defined]
            raise

    def get_params(self, context: Any) -> Any:
        params = super().get_params(context)  # type: ignore[misc]
        for one in params:
            if one.param_type_name == "argument":
                one.display_type_rich = lambda ctx: ""
                one.metavar = one.metavar or one.name.upper()
            elif one.metavar is None and one.is_flag:
                one.metavar = ""
        return params


class PlainCommand(Plain, TyperCommand): ...


class PlainGroup(Plain, TyperGroup): ...


class LazyGroup(PlainGroup):
    """A group whose commands are imported when they are called."""

    def load(self, name: str, rest: list[str], config: Path | None, completing: bool) -> Any:
        """The command with this name; None if it is unknown. ``rest`` are the arguments after the name, ``config`` is
        the value of ``--config``, ``completing`` whether a shell asks what could follow."""
        raise NotImplementedError

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        name, *rest = arguments
        config = context.params.get("config")  # text or a path, depending on Typer's version
        command = self.load(name, rest, config and Path(config), context.resilient_parsing)
        if command is not None:
            self.commands[name] = command
        return super().resolve_command(context, arguments)


def command_of(name: str, command: Callable[..., None] | typer.Typer) -> Any:
    """The command that parses arguments for a function, or for a Typer of subcommands."""
    if not isinstance(command, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name)(command)
        command = alone
    for registered in command.registered_commands:
        registered.cls = PlainCommand
    return typer.main.get_command(command)


def options_by_flag(command: Any) -> dict[str, Any]:
    """The options of a command that `with_settings` describes, by long flag without dashes."""
    return {
        flag.removeprefix("--"): option
        for option in command.params
        for flag in option.opts
        if flag.startswith("--") and option.name in command.callback.kinds
    }


def set_default(option: Any, values: list[Any], many: bool, flag: str) -> None:
    """Make values the default of an option; a flag that is set by default gets a second form that unsets it."""
    together = option.nargs > 1
    option.default = values if option.multiple or together else ",".join(map(str, values)) if many else values[0]
    option.show_default = True
    if values[0] is True:
        option.secondary_opts = [f"--no-{flag}"]


def show_all_options(context: typer.Context, value: bool) -> None:
    """Callback of ``--help-all``: show the hidden options too, and exit."""
    if value:
        options: list[Any] = list(context.command.params)
        for option in options:
            option.hidden = option.name == "help_all"
        typer.echo(context.get_help())
        raise typer.Exit
