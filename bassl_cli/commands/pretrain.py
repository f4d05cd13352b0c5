"""``bassl pretrain``: windows of shots in, a pre-trained model out; on one process or, by torchrun, on many."""

from __future__ import annotations

import inspect
import os
from typing import Annotated, Any

import typer

from bassl_cli import console, launching
from pipelines.errors import BasslError
from pipelines.pretrain import PretrainResult, PretrainSettings
from pipelines.pretrain import pretrain as train
from pipelines.training.options import Option, options_of, settings_from

_STOPPED = 143  # what a shell shows for a process that SIGTERM ended
_OPTIONS = options_of(PretrainSettings, skip=("mean", "std"))
_PANELS = {"": "Options", "pretext": "Pretext tasks", "augmentation": "Augmentation of key-frames"}


def _pretrain(
    gpus: int | None,
    processes: int,
    nodes: int,
    node_rank: int | None,
    rdzv_endpoint: str | None,
    quiet: bool,
    debug: bool,
    **given: Any,
) -> None:
    try:
        settings = settings_from(PretrainSettings, _OPTIONS, given)
    except ValueError as error:
        raise BasslError(str(error)) from error
    job = launching.Job(gpus, processes, nodes, node_rank, rdzv_endpoint)
    if not launching.is_child():
        launching.check(job)
        if launching.needs_torchrun(job):
            code = launching.launch(job, quiet)
            if code == _STOPPED:
                console.complain(f"stopped; go on with --resume --output {settings.output}")
            raise typer.Exit(code)
    if gpus is not None:
        given["device"] = "cpu" if gpus == 0 else "cuda"
        settings = settings_from(PretrainSettings, _OPTIONS, given)
    with launching.telling_the_launcher(), console.training_progress(quiet) as progress:
        result = train(settings, progress)
    if os.environ.get("RANK", "0") == "0":
        _show(result, quiet)
    if result.stopped:
        raise typer.Exit(_STOPPED)


def _show(result: PretrainResult, quiet: bool) -> None:
    if result.stopped:
        if not launching.is_child():
            console.complain(f"stopped after step {result.step} of {result.steps}; go on with --resume")
    elif not quiet:
        console.say(f"{console.count(result.step, 'step')}; wrote {result.model}")


def _parameter(option: Option) -> inspect.Parameter:
    # A tuple is given with commas.
    kind: Any = str if option.many else option.kind
    default = option.shown
    if default is None or default == "":
        kind, default = kind | None, None
    text = option.help + (f" One of {', '.join(option.choices)}." if option.choices else "")
    shown = typer.Option(
        option.flag, help=text, rich_help_panel=_PANELS[option.group], show_default=default is not None
    )
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown]
    )


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_LAUNCHING = [
    _keyword(
        "gpus",
        None,
        Annotated[
            int | None,
            typer.Option(
                help="GPUs to train on, over all machines, a process each; 0 trains on the CPU. Unless given: one, "
                "where there is one.",
                show_default=False,
                rich_help_panel="Machines",
            ),
        ],
    ),
    _keyword(
        "processes",
        1,
        Annotated[int, typer.Option(help="Processes on the CPU, with --gpus 0.", rich_help_panel="Machines")],
    ),
    _keyword("nodes", 1, Annotated[int, typer.Option(help="Machines.", rich_help_panel="Machines")]),
    _keyword(
        "node_rank",
        None,
        Annotated[
            int | None,
            typer.Option(help="Which machine this is, from 0.", show_default=False, rich_help_panel="Machines"),
        ],
    ),
    _keyword(
        "rdzv_endpoint",
        None,
        Annotated[
            str | None,
            typer.Option(metavar="HOST:PORT", help="Where they meet.", show_default=False, rich_help_panel="Machines"),
        ],
    ),
]


def pretrain(**given: Any) -> None:
    """Pre-train a model on videos without labels.

    Learns from the key-frames of the videos in an index, or, with --features, from the encodings of a frozen encoder;
    that runs on a CPU. Defaults are the paper's.

    Example: bassl pretrain --gpus 16 --nodes 2 --node-rank 0 --rdzv-endpoint HOST:29500 --epochs 40
    """
    _pretrain(**{name: value for name, value in given.items() if value is not None or name in _NULLABLE})


_NULLABLE = {"gpus", "node_rank", "rdzv_endpoint"}
_PARAMETERS = [
    *map(_parameter, _OPTIONS),
    *_LAUNCHING,
    _keyword("quiet", False, console.Quiet),
    _keyword("debug", False, console.Debug),
]
# Typer reads options from a signature: here they are the fields of the settings.
pretrain.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]
pretrain.__annotations__ = {parameter.name: parameter.annotation for parameter in _PARAMETERS}
