"""What every training loop needs beside the learning: being stopped, precision, and going on as it was begun."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipelines.errors import BasslError

if TYPE_CHECKING:
    import torch

    from pipelines.training.distributed import Place

Precision = Literal["auto", "float32", "float64", "bf16", "fp16"]
PRECISIONS: tuple[Precision, ...] = ("auto", "float32", "float64", "bf16", "fp16")


@contextmanager
def asked_to_stop() -> Iterator[list[int]]:
    """A list that is empty until SIGTERM or SIGINT comes; a second one of these ends the process as ever."""
    asked: list[int] = []
    before: dict[signal.Signals, Any] = {}

    def note(number: int, frame: object) -> None:
        asked.append(number)
        if "LOCAL_RANK" not in os.environ:  # torchrun passes on what a terminal has sent to all already
            signal.signal(number, before[signal.Signals(number)])

    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, note)
    except ValueError:  # not in the main thread, where nobody may listen
        yield asked
        return
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def computing_in(
    precision: Precision, place: Place
) -> tuple[Callable[[], AbstractContextManager[object]], torch.amp.GradScaler]:
    """The context to compute losses in, and the scaling that fp16 needs.

    Raises:
        BasslError: one line, for fp16 without a GPU.
    """
    import torch

    cuda = place.device.type == "cuda"
    chosen = precision
    if chosen == "auto":
        chosen = ("bf16" if torch.cuda.is_bf16_supported() else "fp16") if cuda else "float32"
    if chosen == "fp16" and not cuda:
        raise BasslError("fp16 needs a GPU; use --precision auto")
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(chosen)
    scaler = torch.amp.GradScaler(place.device.type, enabled=chosen == "fp16")
    return lambda: torch.autocast(place.device.type, dtype, enabled=dtype is not None), scaler


def check_identity(folder: Path, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    """See that a run goes on as it was begun.

    Args:
        folder: of the run.
        stored: what decides it, as it was begun; plain JSON, dictionaries may hold dictionaries.
        wanted: the same, as it is asked for now.

    Raises:
        BasslError: one line, which names the first difference.
    """

    def flat(tree: dict[str, Any]) -> dict[str, Any]:
        leaves: dict[str, Any] = {}
        for name, value in tree.items():
            leaves |= flat(value) if isinstance(value, dict) else {name: value}
        return leaves

    before, now = flat(stored), flat(wanted)
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            what = f"{name} {before.get(name)} and not {now.get(name)}" if "index" not in name else "another index"
            raise BasslError(f"{folder}: its run was begun with {what}; resume it as it was, or use --overwrite")
