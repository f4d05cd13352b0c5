"""All that relies on the inside of Typer, which its documentation does not promise: works with Typer 0.26.8 to 0.29.2.

Typer 0.26 and newer have their own copy of click; nothing here imports either, because both copies have these names.
A job of the workflow runs the tests of the command line with the newest Typer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from pipelines.files import is_file


class FriendlyCommandMixin:
    """Help without the names of Python types, which Typer shows as placeholders of values, and with the defaults of the
    configuration file. If an unknown option is the name of a file, the message says how to write that."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        files = [text for text in args if text.startswith("-") and is_file(Path(text))]
        try:
            rest: list[str] = super().parse_args(context, args)  # type: ignore[misc]
        except Exception as error:
            if files and hasattr(error, "option_name"):  # NoSuchOption, of click or of Typer's copy
                error.message += f"; the file is written ./{files[0]}"  # type: ignore[attr-defined]
            raise
        return rest

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
        return params


class FriendlyCommand(FriendlyCommandMixin, TyperCommand): ...


class FriendlyGroup(FriendlyCommandMixin, TyperGroup): ...


def is_from_file(context: typer.Context, option: str) -> bool:
    """Return whether the value of an option is its default from the configuration file."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "DEFAULT_MAP"


def show_all_options(context: typer.Context, is_set: bool) -> None:
    """Show the hidden options too, and exit: the callback of ``--help-all``."""
    if is_set:
        options: list[Any] = list(context.command.params)
        for option in options:
            option.hidden = option.name == "help_all"
        typer.echo(context.get_help())
        raise typer.Exit
