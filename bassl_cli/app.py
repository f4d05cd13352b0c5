"""The `bassl` command: its subcommands, and error handling."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from threading import current_thread, main_thread
from typing import Annotated, Any, TextIO, cast

import typer

import pipelines
from bassl_cli import config, console
from bassl_cli.interrupts import exit_on_sigint, raise_outside_imports
from bassl_cli.typer_internals import FriendlyCommand, FriendlyGroup
from pipelines.errors import NO_MEMORY, BasslError, explain_missing_extra, is_out_of_memory, show_warnings
from pipelines.files import VIDEO_ENDINGS, os_reason

# By heading of `bassl --help`, each command with its module in commands/ and the first line of its help: listed here so
# that help imports none. A command is a function, or a Typer of subcommands.
COMMANDS = {
    "Find scenes": {
        "predict": ("predict", "Find the scenes of a video, or of each of several."),
        "models": ("models", "List the built-in model and the models under runs/, with training data and scores."),
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
        "extract-keyframes": ("data", "Detect the shots of videos and store the keyframes of each shot."),
        "build-index": ("data", "Index all shots of all videos for training."),
        "encode": ("train", "Compute the features of all shots of an index once, one file per video and encoder."),
        "extract-sound": ("data", "Store sound features of each shot: mean and deviation of log-mel energies."),
        "pretrain": ("train", "Pre-train a model on videos without labels."),
        "finetune": ("train", "Train a model to find scene ends, from labeled videos."),
        "import-checkpoint": ("models", "Convert a checkpoint of the paper's authors, or a ResNet-50, to a model."),
    },
    "Evaluate": {
        "score": ("score", "Measure how well scenes are found."),
        "baseline": ("score", "Find and score scenes with one of the systems of the paper's Table 1."),
        "figure": ("paper", "Draw the figures of the paper from your own videos, models and runs."),
    },
    "Reproduce": {"reproduce": ("paper", "Measure a table of the paper: every system, on one data set.")},
}
MODULES = {name: module for commands in COMMANDS.values() for name, (module, _) in commands.items()}


class _Commands(FriendlyGroup):
    """All commands by name and summary. A command is imported only when it is called, because importing all is slow.
    The configuration file sets the defaults of its options."""

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        name = arguments[0]
        if name in MODULES:
            command = self.commands[name] = load(name)
            path = context.params.get("config")  # text or a path, depending on Typer's version
            # A shell that asks what could follow gets no errors of the file.
            files = [] if context.resilient_parsing else config.read(path and Path(path))
            defaults, sources = config.command_defaults(files, self.commands, name)
            if defaults:
                context.default_map, context.obj = {name: defaults}, {name: sources, **sources}
                command.epilog = (
                    f"Defaults from {' and '.join(str(file.path) for file in files if file.tables.get(name))}"
                )
                if "--debug" in arguments:
                    console.note(command.epilog)
        else:
            _refuse_path(name)
        return super().resolve_command(context, arguments)


def _refuse_path(word: str) -> None:
    """Raise BasslError, with the command that takes it, for a path in place of a command."""
    path = Path(word)
    if path.suffix.lower() == ".json":
        raise BasslError(f"{word}: is not a command; to view its scenes: bassl report {shlex.quote(word)}")
    if os.path.exists(word) or path.suffix.lower() in VIDEO_ENDINGS:  # noqa: PTH110  # a name may be too long
        raise BasslError(f"{word}: is not a command; to find its scenes: bassl predict {shlex.quote(word)}")


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
            show_default="your own bassl.toml, and the one in this folder or the nearest above it",
        ),
    ] = None,
) -> None:
    """Turn a video into its scenes."""


class _Output:
    """Standard stream that its reader may close early; ``error`` is the first other error of writing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._try(self._stream.write, text) or 0

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, act: Callable[..., Any], *arguments: str) -> Any:
        try:
            return act(*arguments)
        except OSError as error:
            # Otherwise Python reports the error again when it closes the stream.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            is_broken_pipe = isinstance(error, BrokenPipeError) or (os.name, error.errno) == ("nt", errno.EINVAL)
            if not is_broken_pipe:  # Windows has another error for it
                self.error = self.error or error


@contextmanager
def _streams() -> Iterator[None]:
    """Make standard output and error an :class:`_Output`, and escape characters that their encoding lacks; let SIGTERM
    raise SystemExit, so that clean-up code runs."""
    if isinstance(sys.stdout, TextIOWrapper):  # stderr is so already
        sys.stdout.reconfigure(errors="backslashreplace")
    before, output = (sys.stdout, sys.stderr), _Output(sys.stdout)
    sys.stdout, sys.stderr = cast(TextIO, output), cast(TextIO, _Output(sys.stderr))
    main = current_thread() is main_thread()
    handler = signal.signal(signal.SIGTERM, raise_outside_imports) if main else None
    try:
        with show_warnings(console.warn):
            yield
    finally:
        output.flush()
        sys.stdout, sys.stderr = before
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)
            if signal.getsignal(signal.SIGINT) is raise_outside_imports:
                exit_on_sigint()  # no code that handles exceptions follows
        if output.error is not None:
            raise BasslError(f"standard output cannot be written ({os_reason(output.error)})") from output.error


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 done but some inputs failed, 2 wrong use or unusable input."""
    try:
        with _streams(), explain_missing_extra():
            app(prog_name="bassl")
    except (BasslError, OSError) as error:
        if console.debugging():
            raise
        message = str(error)
        if isinstance(error, OSError):  # such as a name that is too long
            message = f"{error.filename}: {os_reason(error)}" if error.filename else os_reason(error)
        console.print_error(message)
        sys.exit(2)
    except KeyboardInterrupt:
        console.print_error("interrupted")
        sys.exit(130)
    except Exception as error:
        if console.debugging() or not is_out_of_memory(error):
            raise
        console.print_error(NO_MEMORY)
        sys.exit(2)
