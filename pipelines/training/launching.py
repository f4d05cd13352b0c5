"""Starting the processes of a training job with torchrun, within this process.

torchrun starts the processes, lets them meet, ends all if one dies, and carries an error by its error file. Beside it
stand, each for one reason:

- exit codes of `jobs`: torchrun knows only 0 and failures, and a stop or some failed inputs are neither;
- choosing the failure to show: torchrun takes the first by the second, often a process that only lost its peer;
- waiting for the host (`_endpoint`): torchrun would wait a quarter of an hour and ignore Ctrl-C;
- `check_gpus`: torchrun would start processes that have no GPU;
- `_restore_state` and a temporary log folder: torchrun leaves its signal handlers, environment and folder behind;
- the watch on the launcher (`LAUNCHED`): nothing ends the processes of a torchrun that was killed.

A process of a job ends without finalizing Python, because DDP keeps gloo's threads alive, and one that frees the last
tensor then aborts the process (`bassl_cli/__main__.py`).
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.distributed import run as torchrun
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, get_error_handler
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

from pipelines.errors import BasslError, BasslWarning, count, first_line
from pipelines.training.distributed import LostPeerError
from pipelines.training.jobs import LAUNCHED, LOST_PEER, SOME_FAILED, STOPPED, Machines, is_worker

_HOST_SECONDS = 60


def check_gpus(machines: Machines, command: str) -> None:
    """Check that this machine has the GPUs of the job. Raises BasslError with a ``command`` line that fits it."""
    if not machines.gpus:
        return
    gpus = torch.cuda.device_count()
    if machines.per_node <= gpus:
        return
    fewest = -(-machines.gpus // (gpus or 8))  # unknown on a machine without a GPU: 8 is usual
    nodes = next(nodes for nodes in range(fewest, machines.gpus + 1) if machines.gpus % nodes == 0)
    cluster = f"{count(nodes, 'machine')} with {count(machines.gpus // nodes, 'GPU')}{' each' * (nodes > 1)}"
    if nodes != machines.nodes:  # else the command is right, the machine is not
        cluster += f": {command} --gpus {machines.gpus}"
        if nodes > 1:
            cluster += f" --nodes {nodes} --node-rank 0 (to {nodes - 1}) --rdzv-endpoint FIRST_MACHINE:29500"
    cpu = "" if gpus else "; or train here on the CPU with `gpus=0`"
    available = count(gpus, "GPU") if gpus else "no GPU"
    raise BasslError(f"this machine has {available}, but {machines.per_node} are requested; run on {cluster}{cpu}")


def launch(machines: Machines, arguments: Sequence[str]) -> int:
    """Run ``bassl ARGUMENTS`` in each process of the job and wait; a process that dies ends the others. Signal handlers
    and environment are restored afterwards.

    Returns: The exit code: 0, 1 if some inputs failed, or 128 + the signal for a job that was asked to stop.
    Raises BasslError for an error of a process (see :func:`errors_to_launcher`), or a process that died."""
    options = ["--standalone"]
    if machines.nodes > 1:
        options = ["--nnodes", str(machines.nodes), "--rdzv-endpoint", _endpoint(machines)]
        rendezvous = ["--rdzv-backend", "c10d", "--rdzv-id", "bassl"]
        options += rendezvous if machines.node_rank is None else ["--node-rank", str(machines.node_rank)]
    # torchrun logs at length what launch() reports in one line.
    for logger in map(logging.getLogger, ("torch.distributed.elastic", "torch.distributed.run")):
        logger.handlers, logger.propagate = [logging.NullHandler()], False  # loggers below have levels of their own
    # A temporary folder, because torchrun's own folder for errors would stay.
    with _restore_state(), TemporaryDirectory(prefix="bassl-") as errors:
        options += ["--nproc-per-node", str(machines.per_node), "--log-dir", errors]
        os.environ[LAUNCHED] = str(os.getpid())
        # Processes with more threads than cores are many times slower.
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // machines.per_node)))
        try:
            torchrun.run(torchrun.parse_args([*options, "-m", "bassl_cli", *arguments]))  # type: ignore[no-untyped-call]
        except (RendezvousError, torch.distributed.DistError) as error:
            address = machines.rdzv_endpoint or "localhost"
            raise BasslError(f"the processes did not meet at {address} ({first_line(error)})") from error
        except SignalException as stop:
            return 128 + int(stop.sigval)
        except ChildFailedError as error:
            # torchrun records only the second of a failure, and other processes usually fail within the same second:
            # they lose their peer, or torchrun ends them by SIGTERM.
            consequences = (LOST_PEER, -signal.SIGTERM)
            rank, failure = min(
                error.failures.items(), key=lambda item: (item[1].exitcode in consequences, item[1].timestamp)
            )
            if failure.exitcode in (STOPPED, SOME_FAILED):
                return STOPPED if failure.exitcode == STOPPED else 1
            raise _error_of(rank, failure) from None
    return 0


def _endpoint(machines: Machines) -> str:
    """Return HOST:PORT where several machines meet; the default port of torchrun depends on --node-rank. Raises
    BasslError for an invalid address, or a host that does not resolve within a minute."""
    address = str(machines.rdzv_endpoint)
    try:
        host, port = parse_rendezvous_endpoint(address, 29500)
    except ValueError as error:
        raise BasslError(f"`rdzv_endpoint` {address}: {first_line(error)}") from error
    deadline = time.monotonic() + _HOST_SECONDS
    while not _resolves(host):  # a cluster may add the name of the first machine after it has started the others
        if time.monotonic() > deadline:
            raise BasslError(f"`rdzv_endpoint` {address}: no such host; name the first machine, HOST:PORT")
        warnings.warn(BasslWarning(f"`rdzv_endpoint` {address}: no such host yet; waiting"), stacklevel=2)  # shown once
        time.sleep(1)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _resolves(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except (OSError, UnicodeError):
        return False


@contextmanager
def _restore_state() -> Iterator[None]:
    """Restore what torchrun changes in this process: signal handlers and the environment."""
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    environment = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _error_of(rank: int, failure: ProcessFailure) -> BasslError:
    code = failure.exitcode
    if code in (2, LOST_PEER):
        recorded = failure.error_file_data["message"]  # "<NONE>" without an error file
        message = recorded["message"].partition(": ")[2] if isinstance(recorded, dict) else ""
        return BasslError(message or f"process {rank} stopped; see above")
    end = f"was killed by signal {-code} ({failure.signal_name()})" if code < 0 else f"failed with exit code {code}"
    return BasslError(f"process {rank} {end}; the job was stopped; continue with `resume=True`")


@contextmanager
def errors_to_launcher() -> Iterator[None]:
    """In a process of :func:`launch`, pass a BasslError to the launcher, so that it is shown once, and raise SystemExit
    with 2 or LOST_PEER."""
    try:
        yield
    except BasslError as error:
        if LAUNCHED not in os.environ or not is_worker():
            raise
        # torchrun ends this process if another one failed too, and cannot read an error that is half written.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        handler = get_error_handler()
        handler.initialize()
        file = Path(os.environ["TORCHELASTIC_ERROR_FILE"])
        part = os.environ["TORCHELASTIC_ERROR_FILE"] = f"{file}.part"
        handler.record_exception(error)
        Path(part).replace(file)
        raise SystemExit(LOST_PEER if isinstance(error, LostPeerError) else 2) from error
