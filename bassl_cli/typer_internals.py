"""All that relies on the inside of Typer, which its documentation does not promise: works with Typer 0.26.8 to 0.29.2;
a job of the workflow runs the tests of the command line with the newest. Neither click nor Typer's copy is imported."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

UsageError: Any = typer.BadParameter.__mro__[1]  # Typer exports it under no name


class FriendlyCommandMixin:
    """Help with the defaults of the configuration file, and without the names of Python types as placeholders."""

    def get_params(self, context: Any) -> Any:
        params = super().get_params(context)  # type: ignore[misc]
        defaults = context.default_map or {}
        for param in params:
            if param.param_type_name == "argument":
                param.display_type_rich = lambda ctx: ""
                param.metavar = param.metavar or param.name.upper()
            elif param.metavar is None and param.is_flag:
                param.metavar = ""
            if param.name in defaults:
                param.show_default = True  # which may be a text about another default
            if defaults.get(param.name) is True:  # a flag, which nothing else could unset
                param.secondary_opts = [f"--no-{param.opts[0].removeprefix('--')}"]
            if param.name == "help":
                param.rich_help_panel = "General"
        return params


class FriendlyCommand(FriendlyCommandMixin, TyperCommand): ...


class FriendlyGroup(FriendlyCommandMixin, TyperGroup): ...


def describe_usage_error(error: Any) -> str:
    """Return Typer's message on a wrong command line in one line; it is empty if Typer has shown help instead."""
    message: str = error.format_message().rstrip(".")
    return message and f"{message[0].lower()}{message[1:]}; see --help"


def show_all_options(context: typer.Context, is_set: bool) -> None:
    """Show the hidden options too, and exit: the callback of ``--help-all``."""
    if is_set:
        options: list[Any] = list(context.command.params)
        for option in options:
            option.hidden = option.name == "help_all"
        typer.echo(context.get_help())
        raise typer.Exit
