"""Extracting keyframes on the workers of a Dask cluster. Needs ``distributed``, an optional dependency."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace

from distributed import Client, as_completed

from pipelines.errors import BasslError, first_line
from pipelines.stages.extract_keyframes.child import FilmTask
from pipelines.stages.extract_keyframes.settings import FilmResult

TIMEOUT = 10
"""Seconds that a Dask scheduler may take to answer."""


def run(tasks: Sequence[FilmTask], extract: Callable[[FilmTask], FilmResult]) -> Generator[FilmResult, None, None]:
    """Extract films, which all have the scheduler's address in their settings, on the workers of a Dask cluster; the
    results as they come. Raises BasslError where the scheduler does not answer, or goes away."""
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # an error below says it in one line
    address = tasks[0].settings.dask if tasks else None
    if address is None:
        return
    try:
        client = Client(address, timeout=TIMEOUT)
    except (OSError, ValueError) as error:
        raise BasslError(f"no Dask scheduler answers at {address}") from error
    with client:
        # Absolute paths: a worker has another working directory.
        here = [
            replace(t, film=t.film.absolute(), settings=replace(t.settings, output=t.settings.output.absolute()))
            for t in tasks
        ]
        futures = {
            client.submit(extract, task, key=f"bassl-{task.video_id}-{os.urandom(4).hex()}", pure=False): task
            for task in here
        }
        gone = BasslError(f"the Dask scheduler at {address} has gone; run again to go on where it stopped")
        for future in as_completed(futures):
            if future.status in ("cancelled", "lost"):
                raise gone
            task = futures[future]
            try:
                # Films of a lost worker go to another; a film that kills several workers has failed.
                fault = future.exception()
                result = future.result() if fault is None else task.failed(f"{task.film}: {first_line(fault)}")
            except (OSError, asyncio.CancelledError, CancelledError) as error:  # done, but its result is lost
                raise gone from error
            yield result
