"""A reproduction on several machines: the first one runs all steps, and the others join it in those that train or
encode. It announces their command lines in a store of torch, one port above the one where the processes meet."""

from __future__ import annotations

import json
import socket
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from torch.distributed import DistError, TCPStore  # type: ignore[attr-defined]

from pipelines.errors import BasslError, BasslWarning
from pipelines.stages.reproduce import steps
from pipelines.stages.reproduce.steps import Announce, StoppedError
from pipelines.training.jobs import Machines
from pipelines.training.launching import endpoint

_POLL_SECONDS = 0.5
_MEETING_SECONDS = 1800
_END_SECONDS = 10
_END, _LEFT = json.dumps([]), "left"


@contextmanager
def announcements(machines: Machines) -> Iterator[Announce]:
    """For the first machine, a function that announces a command to the others, and raises StoppedError if one of them
    has left; with the block, they end too. Raises BasslError if the port is in use."""
    if machines.nodes == 1:
        yield lambda words: None
        return
    host, port = endpoint(machines)
    try:
        store = TCPStore(host.strip("[]"), int(port) + 1, is_master=True, wait_for_workers=False)
    except DistError as error:
        raise BasslError(
            f"`rdzv_endpoint`: port {int(port) + 1}, used too, is not free here; name another port"
        ) from error
    number = 0

    def announce(words: Sequence[str]) -> None:
        nonlocal number
        if store.add(_LEFT, 0):
            raise StoppedError
        store.set(str(number), json.dumps(words))
        number += 1

    try:
        yield announce
    finally:
        store.set(str(number), _END)
        deadline = time.monotonic() + _END_SECONDS
        while store.add(_LEFT, 0) < machines.nodes - 1 and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


def join_first(machines: Machines) -> bool:
    """On another machine, run what the first one announces, until it ends; whether a signal ended a command instead. A
    command that fails is a warning, because the first machine reports it. Raises BasslError if the first machine cannot
    be reached."""
    host, port = endpoint(machines)
    store, number = _reach(host.strip("[]"), int(port) + 1), 0
    try:
        while True:
            while not store.check([str(number)]):
                time.sleep(_POLL_SECONDS)
            words = json.loads(store.get(str(number)))
            if not words:
                return False
            try:
                steps.run_command([*words, *machines.options], lambda done, total: None)
            except BasslError as error:
                warnings.warn(BasslWarning(str(error)), stacklevel=2)
            number += 1
    except StoppedError:
        return True
    except DistError as error:
        raise BasslError("the first machine ended; run the same command on all machines again") from error
    finally:
        with suppress(DistError):
            store.add(_LEFT, 1)


def _reach(host: str, port: int) -> TCPStore:
    deadline = time.monotonic() + _MEETING_SECONDS
    while True:
        try:
            socket.create_connection((host, port), timeout=5).close()
            return TCPStore(host, port, is_master=False, wait_for_workers=False)
        except (OSError, DistError) as error:
            if time.monotonic() > deadline:
                raise BasslError(
                    f"`rdzv_endpoint`: nothing answers at {host}:{port}; start the first machine"
                ) from error
            time.sleep(_POLL_SECONDS)
