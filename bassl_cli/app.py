"""The `bassl` command: its subcommands, and error handling."""

from __future__ import annotations

import os
import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

import pipelines
from bassl_cli import console
from bassl_cli.typer_internals import FriendlyCommand, FriendlyGroup, UsageError, describe_usage_error
from pipelines.errors import NO_MEMORY, BasslError, explain_missing_extra, is_out_of_memory, show_warnings, suggestion
from pipelines.files import VIDEO_ENDINGS, os_reason

# By heading of `bassl --help`, each command with its module in commands/ and the first line of its help: listed here so
# that help imports none. A command is a function, or a Typer of subcommands.
COMMANDS = {
    "Find scenes": {
        "predict": ("predict", "Find the scenes of a video, or of each of several."),
        "models": ("paper", "List the built-in model and the models under runs/, with training data and scores."),
    },
    "Correct and export": {
        "report": ("results", "Make a page of a video's scenes, to view, correct and save them and to try thresholds."),
        "review": ("results", "Review a video's scenes in the browser, at the cuts the model is least sure of."),
        "regroup": ("results", "Find other scenes from the same scores, without reading the video again."),
        "learn": ("results", "Learn from videos whose scenes were corrected, and write a model for predict."),
        "export": ("results", "Convert scenes for an editing tool, a player, a table or a labeling tool."),
        "split": ("results", "Cut a video into its scenes."),
        "save-images": ("results", "Save images of the scenes of a video, or of its shots."),
    },
    "Train": {
        "extract-keyframes": ("train", "Detect the shots of videos and store the keyframes of each shot."),
        "build-index": ("train", "Index all shots of all videos for training."),
        "encode": ("train", "Compute the features of all shots of an index once, one file per video and encoder."),
        "extract-sound": ("train", "Store sound features of each shot: mean and deviation of log-mel energies."),
        "pretrain": ("train", "Pre-train a model on videos without labels."),
        "finetune": ("train", "Train a model to find scene ends, from labeled videos."),
        "import-checkpoint": ("paper", "Convert a checkpoint of the paper's authors, or a ResNet-50, to a model."),
    },
    "Evaluate": {
        "score": ("score", "Measure how well scenes are found."),
        "baseline": ("score", "Find and score scenes with one of the systems of the paper's Table 1."),
        "figure": ("paper", "Draw the figures of the paper from your own videos, models and runs."),
    },
    "Reproduce": {"reproduce": ("paper", "Measure a table of the paper: every system, on one data set.")},
}
INTERRUPTED = 130
MODULES = {name: module for commands in COMMANDS.values() for name, (module, _) in commands.items()}


class _Commands(FriendlyGroup):
    """All commands by name and summary, imported when called; the configuration file sets defaults of options."""

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        name, is_completing = arguments[0], context.resilient_parsing  # a shell's completion gets no errors
        if name in MODULES:
            self.commands[name] = load(name)
        elif not is_completing:
            raise BasslError(f"{name}: {_advise(name)}")
        if "" in arguments and not is_completing:
            raise BasslError("an argument is empty (an unset variable of the shell?); for the working folder write .")
        from bassl_cli.options import command_defaults, user_file  # start-up time of --help

        file = None if is_completing else context.params.get("config") or user_file()
        if file and (defaults := command_defaults(Path(file), self.commands, name)):
            context.default_map = {name: defaults}
            self.commands[name].epilog = f"Defaults from {file}"
        return super().resolve_command(context, arguments)


def _advise(word: str) -> str:
    """Return what to write instead of a word that is not a command, such as the path of a video."""
    path = Path(word)
    if path.suffix.lower() == ".json":
        return f"is not a command; to view its scenes: bassl report {shlex.quote(word)}"
    if os.path.exists(word) or path.suffix.lower() in VIDEO_ENDINGS:  # noqa: PTH110  # a name may be too long
        return f"is not a command; to find its scenes: bassl predict {shlex.quote(word)}"
    return f"is not a command{suggestion(word, MODULES)}; bassl --help lists all"


def load(name: str) -> Any:
    """Import a command, or a group of commands, by name."""
    command = getattr(import_module(f"bassl_cli.commands.{MODULES[name]}"), name.replace("-", "_"))
    if not isinstance(command, typer.Typer):
        function, command = command, typer.Typer(add_completion=False)
        command.command(name, cls=FriendlyCommand)(function)
    return typer.main.get_command(command)


def _show_version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"bassl {pipelines.__version__}")
        raise typer.Exit


app = typer.Typer(
    name="bassl",
    cls=_Commands,
    help="Turn a video into its scenes.",
    epilog="Examples: bassl predict movie.mp4 --report | bassl split movie.mp4 movie.scenes.json | "
    "bassl COMMAND --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _heading, _commands in COMMANDS.items():
    for _name, (_, _summary) in _commands.items():
        app.command(_name, help=_summary, rich_help_panel=_heading)(lambda: None)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", "-v", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with defaults of options, in a table for each command.",
            show_default="bassl.toml in your configuration folder",
        ),
    ] = None,
) -> None:
    """Turn a video into its scenes."""


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 some inputs failed, 2 wrong use or input, 130 interrupted."""
    try:
        with show_warnings(console.warn), explain_missing_extra():
            code = app(prog_name="bassl", standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:
        code, message = 2, _explain(error)
        if _is_interrupt(error):
            code = INTERRUPTED
        elif message is None or console.debugging():
            raise
        elif message:
            console.print_error(message)
    if code == INTERRUPTED:  # Typer returns this for KeyboardInterrupt
        console.print_error("interrupted")
    sys.exit(code)


def _explain(error: Exception) -> str | None:
    """Return an error that a user can cause in one line, which is empty if help was shown; None for a bug."""
    if isinstance(error, BasslError):
        return str(error)
    if isinstance(error, UsageError):
        return describe_usage_error(error)
    if isinstance(error, OSError):  # such as a name that is too long, or a full disk behind stdout
        return f"{error.filename}: {os_reason(error)}" if error.filename else os_reason(error)
    return NO_MEMORY if is_out_of_memory(error) else None


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether an exception was raised while KeyboardInterrupt was handled, as torch may do."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
