"""Commands that train: their options out of a settings dataclass, and starting them again in several processes.

Several processes are started by torchrun within this one.
"""

from __future__ import annotations

import inspect
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from bassl_cli import console
from pipelines.errors import BasslError
from pipelines.options import Option, settings_from

S = TypeVar("S")
STOPPED = 143
"""Exit code of a run that was asked to stop: what a shell shows for a process that SIGTERM ended."""

_LAUNCHED = "BASSL_LAUNCHED"


@dataclass(frozen=True)
class Job:
    """What was asked for: GPUs over all machines (None: whatever is there), processes on the CPU, machines."""

    gpus: int | None
    processes: int
    nodes: int
    node_rank: int | None
    endpoint: str | None

    @property
    def per_node(self) -> int:
        """Processes on this machine."""
        return (self.gpus // self.nodes) if self.gpus else self.processes


def is_child() -> bool:
    """Whether torchrun started this process."""
    return "LOCAL_RANK" in os.environ


def needs_torchrun(job: Job) -> bool:
    """Whether the job has more than one process."""
    return job.per_node * job.nodes > 1


def check(job: Job, command: str) -> None:
    """See that the job can run here.

    Args:
        job: what was asked for.
        command: of ours, for the message.

    Raises:
        BasslError: one line, which says what to run where it cannot.
    """
    if min(job.processes, job.nodes) < 1 or (job.gpus or 0) < 0:
        raise BasslError("--processes and --nodes must be at least 1, and --gpus not negative")
    if job.processes > 1 and job.gpus != 0:
        raise BasslError("--processes is for the CPU: add --gpus 0; on GPUs there is a process for each of --gpus N")
    if job.nodes > 1 and (job.endpoint is None or (job.node_rank is not None and not 0 <= job.node_rank < job.nodes)):
        raise BasslError(
            f"on {job.nodes} machines, run the same on each, with --rdzv-endpoint HOST:PORT of the first machine "
            f"and --node-rank 0 to {job.nodes - 1}"
        )
    if not job.gpus:
        return
    if job.gpus % job.nodes:
        raise BasslError(f"{job.gpus} GPUs cannot be shared equally by {job.nodes} machines")
    import torch

    here = torch.cuda.device_count()
    if job.per_node <= here:
        return
    size = here or 8
    machines = -(-job.gpus // size)
    while job.gpus % machines:
        machines += 1
    found = f"this machine has {here} GPU{'' if here == 1 else 's'}" if here else "this machine has no GPU"
    # A machine without any tells nothing of the others.
    many = f"{machines} machine{'' if machines == 1 else 's'} with {job.gpus // machines} GPUs each"
    what = f"bassl {command} --gpus {job.gpus}"
    if machines > 1:
        what += f" --nodes {machines} --node-rank 0 (to {machines - 1}) --rdzv-endpoint FIRST_MACHINE:29500"
    cpu = "" if here else "; or train here on the CPU with --gpus 0"
    raise BasslError(f"{found}, and {job.per_node} are asked for; run on {many}: {what}{cpu}")


def launch(job: Job, quiet: bool) -> int:
    """Run this command line again in each process of the job and wait for all; a process that dies ends the others.

    Returns:
        The exit code.

    Raises:
        BasslError: one line, for what a process refused, or for a process that died.
    """
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    where = ["--standalone"]
    if job.nodes > 1:
        where = ["--nnodes", str(job.nodes)]
        if job.node_rank is None:
            where += ["--rdzv-backend", "c10d", "--rdzv-endpoint", str(job.endpoint), "--rdzv-id", "bassl"]
        else:
            host, _, port = str(job.endpoint).rpartition(":")
            where += ["--node-rank", str(job.node_rank), "--master-addr", host or port]
            where += ["--master-port", port if host else "29500"]
    command = [*where, "--nproc-per-node", str(job.per_node), "-m", "bassl_cli", *sys.argv[1:]]
    os.environ[_LAUNCHED] = "1"
    # Threads that wait for a core in turns cost many times more.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // job.per_node)))
    # torchrun tells at length what is told here in a line.
    for name in ("torch.distributed.elastic", "torch.distributed.run"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        torchrun.run(torchrun.parse_args(command))  # type: ignore[no-untyped-call]
    except SignalException as stop:
        return 128 + int(stop.sigval)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode == 128 + signal.SIGTERM:
            return 128 + signal.SIGTERM
        told = failure.error_file_data.get("message") if isinstance(failure.error_file_data, dict) else None
        text = str(told.get("message", "")) if isinstance(told, dict) else ""
        if failure.exitcode == 2:
            raise BasslError(text.partition(": ")[2] or f"process {rank} stopped; see above") from None
        how = (
            f"was ended by signal {-failure.exitcode} ({signal.Signals(-failure.exitcode).name})"
            if failure.exitcode < 0
            else f"failed with exit code {failure.exitcode}"
        )
        raise BasslError(f"process {rank} of the job {how}, and the job with it; go on with --resume") from None
    return 0


@contextmanager
def telling_the_launcher() -> Iterator[None]:
    """In a process that :func:`launch` started, leave it to that to tell of an error, lest all of them tell it."""
    try:
        yield
    except BasslError as error:
        if _LAUNCHED not in os.environ or not is_child() or console.debugging():
            raise
        from torch.distributed.elastic.multiprocessing.errors import get_error_handler

        handler = get_error_handler()
        handler.initialize()
        handler.record_exception(error)
        raise typer.Exit(2) from error


# --- options ----------------------------------------------------------------------------------------------------------


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _machines() -> list[inspect.Parameter]:
    def option(kind: Any, text: str, **more: Any) -> Any:
        return Annotated[kind, typer.Option(help=text, rich_help_panel="Machines", **more)]

    gpus = "GPUs to train on, over all machines, a process each; 0 trains on the CPU. Unless given: one, where there "
    return [
        _keyword("gpus", None, option(int | None, gpus + "is one.", show_default=False)),
        _keyword("processes", 1, option(int, "Processes on the CPU, with --gpus 0.")),
        _keyword("nodes", 1, option(int, "Machines.")),
        _keyword("node_rank", None, option(int | None, "Which machine this is, from 0.", show_default=False)),
        _keyword(
            "rdzv_endpoint",
            None,
            option(str | None, "Where they meet.", metavar="HOST:PORT", show_default=False),
        ),
    ]


def _parameter(option: Option, panels: Mapping[str, str]) -> inspect.Parameter:
    # A tuple is given with commas.
    kind: Any = str if option.many else option.kind
    default = option.shown
    if default is None or default == "":
        kind, default = kind | None, None
    text = option.help + (f" One of {', '.join(option.choices)}." if option.choices else "")
    shown = typer.Option(
        option.flag, help=text, rich_help_panel=panels.get(option.group, "Options"), show_default=default is not None
    )
    return _keyword(option.name, default, Annotated[kind, shown])


_MACHINES = _machines()


def with_options(
    options: Sequence[Option], panels: Mapping[str, str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a signature for Typer: the options of its settings, those of machines, ``quiet`` and ``debug``.

    Args:
        options: of the settings, which become keywords of the command where they are given.
        panels: heading in ``--help`` for each group of options.
    """
    parameters = [
        *(_parameter(option, panels or {}) for option in options),
        *_MACHINES,
        _keyword("quiet", False, console.Quiet),
        _keyword("debug", False, console.Debug),
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def settings_here(settings: type[S], options: Sequence[Option], command: str, given: Mapping[str, Any]) -> S:
    """The settings that were given, in the process that is to train; where several are to, they are started here.

    Args:
        settings: the dataclass; it has ``output`` and ``device``.
        options: of it.
        command: of ours.
        given: all parameters of the command.

    Raises:
        BasslError: one line, for settings that do not fit, or machines that are not here.
        typer.Exit: in the process that started the others, when all of them have ended.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    machines = {parameter.name: given[parameter.name] for parameter in _MACHINES}
    if machines["gpus"] is not None:
        chosen["device"] = "cpu" if machines["gpus"] == 0 else "cuda"
    try:
        made = settings_from(settings, options, chosen)
    except ValueError as error:
        raise BasslError(str(error)) from error
    job = Job(
        machines["gpus"], machines["processes"], machines["nodes"], machines["node_rank"], machines["rdzv_endpoint"]
    )
    if not is_child():
        check(job, command)
        if needs_torchrun(job):
            code = launch(job, given["quiet"])
            if code == STOPPED:
                console.complain(f"stopped; go on with --resume --output {made.output}")  # type: ignore[attr-defined]
            raise typer.Exit(code)
    return made
