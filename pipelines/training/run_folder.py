"""The folder of a training run: the model, what is needed to go on, and the logs.

model.safetensors    the model as it is now; of fine-tuning, the chosen one
seed-N.safetensors   of fine-tuning, the model of each seed
result.json          of fine-tuning, all measures of all seeds
state.pt             weights, optimiser and step, to go on from
log.csv              losses, learning rate and speed, a row every few steps
validation.csv       measures of each epoch
tensorboard/         the same for TensorBoard
"""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from pipelines.errors import BasslError, StoreError

MODEL, STATE, RESULT = "model.safetensors", "state.pt", "result.json"
_LOGS = ("log.csv", "validation.csv")
_RESULTS = (RESULT, "seed-*.safetensors")
_BOARD = "tensorboard"


def open_run_folder(folder: Path, resume: bool, overwrite: bool) -> None:
    """Make the folder of a run, or see that the one that is there may be used.

    Raises:
        BasslError: one line, where it holds a run that is neither to be resumed nor overwritten, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = [name for name in (STATE, MODEL, *_LOGS) if (folder / name).exists()]
        held += [path.name for pattern in _RESULTS for path in sorted(folder.glob(pattern))]
        if held and not (resume or overwrite):
            raise BasslError(
                f"{folder}: holds a run; go on with --resume, replace it with --overwrite, or name another"
            )
        if overwrite:
            for name in held:
                (folder / name).unlink()
            shutil.rmtree(folder / _BOARD, ignore_errors=True)
        # What was left half written when a process was killed.
        for partial in folder.glob(f".{STATE}.*"):
            partial.unlink()
    except OSError as error:
        raise BasslError(f"{folder}: cannot be written ({(error.strerror or str(error)).lower()})") from error


def save_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Write the state of a run, of tensors and plain containers; it appears whole or not at all.

    Raises:
        StoreError: one line, where it cannot be written.
    """
    partial = folder / f".{STATE}.{os.getpid()}"
    try:
        with partial.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(folder / STATE)
    except (OSError, RuntimeError) as error:
        with suppress(OSError):
            partial.unlink()
        raise StoreError(f"{folder / STATE}: cannot be written ({str(error).splitlines()[0]})") from error


def put_same_file(source: Path, target: Path) -> None:
    """Give a file a second name, as a hard link or, where there are none, as a copy; what was there is replaced.

    Raises:
        StoreError: one line, where it cannot be written.
    """
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.unlink(missing_ok=True)
        try:
            partial.hardlink_to(source)
        except OSError:  # a file system without links
            shutil.copyfile(source, partial)
        if target.exists() and target.samefile(partial):
            partial.unlink()  # renaming a file to another name of its own does nothing
        else:
            partial.replace(target)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise StoreError(f"{target}: cannot be written ({(error.strerror or str(error)).lower()})") from error


def load_state(folder: Path) -> dict[str, Any] | None:
    """The state of a run, None where there is none yet.

    Raises:
        StoreError: one line, for a file that is damaged or holds anything but tensors and plain containers.
    """
    path = folder / STATE
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, dict) or not {"settings", "step", "model", "optimizer"} <= set(state):
            raise ValueError("not the state of a run")
    except Exception as error:  # unpickling raises nearly anything
        raise StoreError(f"{path}: is damaged or not the state of a run; begin again with --overwrite") from error
    return state


class RunLog:
    """Rows to CSV files and TensorBoard.

    Args:
        folder: of the run.
        step: from which the run goes on; rows behind it, of steps that will be taken again, are dropped.
    """

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder = folder
        for name in _LOGS:
            _drop_rows(folder / name, step)
        self._board = SummaryWriter(str(folder / _BOARD), purge_step=step + 1)

    def write(self, name: str, row: Mapping[str, float]) -> None:
        """Add a row, which begins with its ``step``, to ``log`` or ``validation``."""
        path = self.folder / f"{name}.csv"
        new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(row)
            writer.writerow([f"{value:.8g}" if isinstance(value, float) else value for value in row.values()])
        for key, value in row.items():
            if key not in ("step", "epoch", "seed"):
                self._board.add_scalar(f"{name}/{key}", value, int(row["step"]))
        self._board.flush()

    def close(self) -> None:
        """Finish TensorBoard's file."""
        self._board.close()


def _drop_rows(path: Path, step: int) -> None:
    if not path.exists():
        return
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    # A row that a full disk or a kill cut short has fewer cells than the header.
    kept = [row for row in rows[1:] if len(row) == len(rows[0]) and int(row[0]) <= step]
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", newline="") as file:
        csv.writer(file).writerows([*rows[:1], *kept])
    partial.replace(path)
