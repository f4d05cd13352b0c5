"""The `bassl` command: its subcommands, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import pipelines
from bassl_cli import console
from bassl_cli.commands.build_index import build_index
from bassl_cli.commands.extract_keyframes import extract_keyframes
from bassl_cli.commands.import_checkpoint import import_checkpoint
from bassl_cli.commands.predict import predict
from bassl_cli.commands.pretrain import pretrain
from pipelines.errors import BasslError

app = typer.Typer(
    name="bassl",
    help="Turn a video into its scenes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(extract_keyframes)
app.command()(build_index)
app.command()(pretrain)
app.command()(predict)
app.command()(import_checkpoint)


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
    try:
        app(prog_name="bassl")
    except BasslError as error:
        if console.debugging():
            raise
        console.complain(str(error))
        sys.exit(2)
    except SystemExit as end:
        if end.code == 130:  # what typer makes of Ctrl-C, without a word
            console.complain("interrupted")
        raise
    except BrokenPipeError:
        # Whoever read our output has had enough; Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
