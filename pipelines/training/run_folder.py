"""The folder of a training run: its files, its log, and checks before it is used.

model.safetensors    the current model; after fine-tuning, the model of the best seed
seed-N.safetensors   fine-tuning only: the model of each seed
result.json          fine-tuning only: all metrics of all seeds
run.json             what was run: command, settings, versions, devices, times
state.pt             weights, optimizer state and step, to resume from
log.csv              losses, learning rate and speed, one row every few steps
validation.csv       metrics of each epoch
tensorboard/         the same for TensorBoard; after fine-tuning, a folder of each seed
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pipelines
from pipelines import settings as shared_settings
from pipelines.errors import BasslError, StoreError, first_line
from pipelines.files import (
    MOST_LARGE_BYTES,
    atomic_file,
    check_regular,
    locked,
    os_errors,
    os_reason,
    read_regular,
    write_atomically,
)
from pipelines.models.opening import MODEL, STATE
from pipelines.settings import RunSettings
from pipelines.training import Peer, broadcast_from_rank0, gather_objects

RESULT, RECORD = "result.json", "run.json"
LOG, VALIDATION = "log.csv", "validation.csv"
_FILES = (STATE, MODEL, LOG, VALIDATION, RESULT)
TENSORBOARD = "tensorboard"


def seed_file(seed: int) -> str:
    """Return the file name of the model of a seed."""
    return f"seed-{seed}.safetensors"


def seed_files(folder: Path) -> dict[int, Path]:
    """Return the models of the seeds of a fine-tuning run, by seed; empty for other folders."""
    names = {path.stem.removeprefix("seed-"): path for path in folder.glob("seed-*.safetensors")}
    return dict(sorted((int(name), path) for name, path in names.items() if name.isdecimal()))


def check_run_folder(folder: Path, resume: bool, overwrite: bool) -> list[Path]:
    """Return the files of a run in a folder. Raises BasslError if there are any and neither ``resume`` nor
    ``overwrite`` is set, or if they are not enough to resume from."""
    with os_errors(folder):
        files = [folder / name for name in _FILES if (folder / name).exists()]
        files += (seeds := seed_files(folder)).values()
    if files and not (resume or overwrite):
        raise BasslError(
            f"{folder}: contains a run; continue it with `resume=True`, replace it with `overwrite=True`, or name "
            "another folder"
        )
    if resume and folder / STATE not in files and (folder / MODEL in files or seeds):
        raise BasslError(
            f"{folder}: has a model but no {STATE} to continue from; replace it with `overwrite=True`, or name another"
        )
    return files


@contextmanager
def open_run(run: RunSettings, identity: Mapping[str, Any], process: Peer) -> Iterator[dict[str, Any] | None]:
    """Create the folder of a run, or check that an existing one may be used, and lock it during the block; yield the
    state to resume from, None for a run that begins. All processes call this. Raises BasslError as `check_run_folder`
    and `load_state`, or if the folder cannot be written, or another process is training in it."""
    with ExitStack() as lock:
        broadcast_from_rank0(process, lambda: _prepare_folder(run, lock))
        yield load_state(run.output, identity, process) if run.resume else None


def _prepare_folder(run: RunSettings, lock: ExitStack) -> None:
    folder = run.output
    with os_errors(folder, "cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.enter_context(locked(folder))
        except BlockingIOError as error:
            other = "another process is training in it; wait until it ends, or name another folder"
            raise BasslError(f"{folder}: {other}") from error
        files = check_run_folder(folder, run.resume, run.overwrite)
        if run.overwrite:
            for path in files:
                path.unlink()
            shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)
        if run.overwrite or not files:  # a run that ended before its first row has left nothing to continue
            (folder / RECORD).unlink(missing_ok=True)


@contextmanager
def record_run(folder: Path, settings: Any, process: Peer, *, device: str, **facts: Any) -> Iterator[None]:
    """Record the block in :data:`RECORD`, as a part of the run, by all processes, with the name of their ``device`` and
    ``facts``, resolved settings. Raises StoreError for a file that is no record, BasslError if it cannot be written."""
    import torch  # optional dependency: reading logs does not need it

    devices = gather_objects(process, device)
    if not process.is_first:
        yield
        return
    path, clock, program = folder / RECORD, time.monotonic(), Path(sys.argv[0])
    parts = _recorded_parts(path)
    part = {
        "command": shlex.join(["bassl" if program.parent.name == "bassl_cli" else program.name, *sys.argv[1:]]),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": None,
        "processes": process.world_size,
        "devices": devices,
        "versions": {
            "bassl": pipelines.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
        },
        "settings": settings_as_json(settings),
        **facts,
    }
    content = {"schema": "bassl.run", "version": 1, "parts": [*parts, part]}

    def write() -> None:
        write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())

    write()
    try:
        yield
    finally:
        part["seconds"] = round(time.monotonic() - clock, 1)
        write()


def _recorded_parts(path: Path) -> list[Any]:
    try:
        parts = json.loads(read_regular(path))["parts"] if path.exists() else []
        if not isinstance(parts, list):
            raise ValueError("no parts")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StoreError(f"{path}: is not the record of a run; move it away to continue") from error
    return parts


# --- resuming ---------------------------------------------------------------------------------------------------------


def settings_as_json(settings: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Return a settings dataclass as plain JSON values, paths as text. Settings that stages share are not nested."""
    values: dict[str, Any] = {}
    for name, value in asdict(settings).items():
        shared = type(getattr(settings, name)).__module__ == shared_settings.__name__
        values |= value if shared else {name: value}
    values = {name: value for name, value in values.items() if name not in without}
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return plain


def check_identity(folder: Path, stored: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Check that a run is resumed with the settings that it was started with, nested dictionaries of plain JSON values;
    facts of the index have names with "of the index". Raises BasslError with the first difference."""

    def flatten(tree: Mapping[str, Any]) -> dict[str, Any]:
        leaves: dict[str, Any] = {}
        for name, value in tree.items():
            leaves |= flatten(value) if isinstance(value, dict) else {name: value}
        return leaves

    before, now = flatten(stored), flatten(current)
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            different = f"{name} {before.get(name)}, not {now.get(name)}"
            what = "another index" if name.endswith(" of the index") else different
            raise BasslError(
                f"{folder}: its run was started with {what}; resume it with the same settings, or use `overwrite=True`"
            )


def save_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Write the state of a run, tensors and plain containers. Raises BasslError if it cannot be written."""
    import torch  # optional dependency: reading logs does not need it

    path = folder / STATE
    try:
        with atomic_file(path) as partial:
            torch.save(dict(state), partial)
    except RuntimeError as error:  # what torch raises on a full disk
        raise StoreError(f"{path}: cannot be written ({first_line(error)})") from error


def load_state(folder: Path, identity: Mapping[str, Any], process: Peer) -> dict[str, Any] | None:
    """Return the state of a run, or None. Raises StoreError if it is damaged or contains more than tensors and plain
    containers, BasslError if its ``settings`` (JSON) are not ``identity``."""
    import torch  # optional dependency: reading logs does not need it

    path = folder / STATE
    if len(set(gather_objects(process, path.exists() and path.stat().st_size))) > 1:
        raise BasslError(f"{folder}: not all processes find the same {STATE}; name a folder that all machines share")
    if not os.path.lexists(path):
        return None
    check_regular(path, kind=StoreError)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, dict) or not {"settings", "step", "model", "optimizer"} <= set(state):
            raise ValueError("not the state of a run")
        stored = json.loads(state["settings"])
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({os_reason(error)})") from error
    except Exception as error:  # unpickling raises nearly anything
        raise StoreError(f"{path}: is damaged or not the state of a run; start again with `overwrite=True`") from error
    check_identity(folder, stored, identity)
    return state


# --- log --------------------------------------------------------------------------------------------------------------


class RunLog:
    """Writes rows to CSV files and, as curves, for TensorBoard; nothing without a folder. Rows after ``step``, at which
    the run continues, are dropped. Seeds, of ``seed_steps`` each, have a folder of curves each, from step 1."""

    def __init__(self, folder: Path | None, step: int, *, seed_steps: int = 0) -> None:
        self._folder, self._seed_steps = folder, seed_steps
        self._done = step % seed_steps if seed_steps else step  # steps of the first curves that are there already
        self._seed: float | None = None
        self._curves: Any = None  # of this seed
        self._columns: dict[str, list[str]] = {LOG: [], VALIDATION: []}
        if folder is not None:
            for name, columns in self._columns.items():
                header, rows = _read_table(folder / name)
                if rows := [row for row in rows if float(row[header.index("step")]) <= step]:
                    columns += header
                    _write_table(folder / name, header, rows)
            if (folder / TENSORBOARD).is_symlink():  # curves would be written elsewhere
                raise BasslError(f"{folder / TENSORBOARD}: is a link; remove it, or name another folder")
            with os_errors(folder / TENSORBOARD, "cannot be written"):
                (folder / TENSORBOARD).mkdir(exist_ok=True)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # a full disk, reported when a row was written
            self._close()

    def write(self, name: str, row: Mapping[str, float]) -> None:
        """Add a row with its ``step`` to a log; a new name adds a column. Raises BasslError if it cannot be written."""
        if self._folder is None:
            return
        path, columns = self._folder / name, self._columns[name]
        try:
            if new := [column for column in row if column not in columns]:
                rows = _read_table(path)[1] if columns else []
                columns += new
                _write_table(path, columns, [[*cells, *["nan"] * len(new)] for cells in rows])
            values = [row.get(column, math.nan) for column in columns]
            with path.open("a", encoding="utf-8", newline="") as file:
                csv.writer(file).writerow([f"{value:.8g}" if isinstance(value, float) else value for value in values])
            self._draw(self._folder, path.stem, row)
        except OSError as error:
            raise BasslError(f"{path}: cannot be written ({os_reason(error)}); continue with `resume=True`") from error

    def _draw(self, folder: Path, kind: str, row: Mapping[str, float]) -> None:
        seed, step = row.get("seed"), int(row["step"])
        if self._curves is None or seed != self._seed:
            self._close()
            # TensorBoard's own switch against importing TensorFlow, which prints lines.
            sys.modules.setdefault("tensorboard.compat.notf", ModuleType("notf"))
            from torch.utils.tensorboard import SummaryWriter  # start-up time: reading logs does not need torch

            curves = folder / TENSORBOARD / ("" if seed is None else f"seed-{seed:.0f}")
            self._curves = SummaryWriter(str(curves), purge_step=self._done + 1)
            self._seed, self._done = seed, 0
        if self._seed_steps:
            step = (step - 1) % self._seed_steps + 1
        for key, value in row.items():
            if key not in ("step", "epoch", "seed"):
                self._curves.add_scalar(f"{kind}/{key}", value, step)
        self._curves.flush()

    def _close(self) -> None:
        if self._curves is not None:
            curves, self._curves = self._curves, None
            curves.close()


def read_log(path: Path) -> list[dict[str, float]]:
    """Return the rows of a log by column; empty without a file. Raises StoreError for a file that is no log."""
    header, rows = _read_table(path)
    return [dict(zip(header, map(float, row), strict=True)) for row in rows]


def _read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the columns of a log and its whole rows of numbers; none of both without a row."""
    if not os.path.lexists(path):
        return [], []
    try:
        content = read_regular(path, MOST_LARGE_BYTES, StoreError).decode()
        header, *rows = list(csv.reader(io.StringIO(content, newline=""))) or [[]]
        rows = [row for row in rows if len(row) >= len(header)]
        numbers = [dict(zip(header, map(float, row), strict=True)) for row in rows]
        if len(set(header)) < len(header) or not all(math.isfinite(row["step"]) for row in numbers):
            raise ValueError("equal columns, or a step that is not a number")
    except (ValueError, KeyError, csv.Error) as error:
        raise StoreError(f"{path}: is not the log of a run; move it away") from error
    return (header, rows) if rows else ([], [])


def _write_table(path: Path, header: list[str], rows: list[list[str]]) -> None:
    with atomic_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
