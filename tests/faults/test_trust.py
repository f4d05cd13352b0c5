"""Folders, files and messages that somebody else made: none runs, moves or names what it must not."""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress
from functools import partial
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import BasslError
from pipelines.files import atomic_file, files_together, locked, remove_partials
from pipelines.processes import _MessageUnpickler
from pipelines.training.run_folder import MODEL, STATE, open_run_folder
from tests.faults.conftest import held, inject
from tests.running import leftover, posix

# --- links and leftovers ----------------------------------------------------------------------------------------------

PLANTED = {
    "link to a folder": lambda path, folder: path.symlink_to(folder),
    "link to a file": lambda path, folder: path.symlink_to(folder / "letter"),
    "link to nothing": lambda path, folder: path.symlink_to(folder / "new"),
    "hard link": lambda path, folder: path.hardlink_to(folder / "letter"),
    "folder": lambda path, folder: path.mkdir(),
    "file": lambda path, folder: path.write_text("planted"),
    "pipe": lambda path, folder: os.mkfifo(path),
}


def write_file(folder: Path) -> None:
    with atomic_file(folder / "name") as partial:
        partial.write_text("whole")


def write_files(folder: Path) -> None:
    with files_together(folder, "name") as partial:
        (partial / "1").write_text("1")


def start_run(folder: Path) -> None:
    with open_run_folder(folder, resume=True, overwrite=False), (folder / "log.csv").open("a") as log:
        log.write("step\n")


def lock(folder: Path) -> None:
    with suppress(OSError), locked(folder / ".lock"):
        pass


@posix
def test_what_is_planted_under_our_names_leads_nowhere(tmp_path: Path) -> None:
    kind, number = "planted links and leftovers", 0
    names = [f".name.{mark}{end}" for mark in ("aaaaaaaa", "a" * 32) for end in (".partial", ".complete", ".lock")]
    own = [STATE, MODEL, "log.csv", "validation.csv", "tensorboard", ".lock", f".{MODEL}.aaaaaaaa.partial"]

    def check(name: str, what: str, write: Any) -> None:
        home, folder = tmp_path / str(number) / "home", tmp_path / str(number) / "folder"
        home.mkdir(parents=True)
        folder.mkdir()
        (home / "letter").write_text("mine")
        PLANTED[what](folder / name, home)
        with suppress(BasslError, IsADirectoryError):
            write(folder)
        assert [path.name for path in home.iterdir()] == ["letter"]
        assert (home / "letter").read_text() == "mine"
        if write in (write_file, write_files):
            assert os.path.lexists(folder / name), "removed"

    for write, name, what in (
        *product((write_file, write_files), names, PLANTED),
        *((start_run, name, what) for name in own for what in PLANTED if what not in ("pipe", "hard link")),
        *((lock, ".lock", what) for what in PLANTED),
    ):
        number += 1
        inject(kind, f"{write.__name__}: {name} is a {what}", partial(check, name, what, write))
    held(kind)


def test_a_leftover_of_another_path_is_left_alone(tmp_path: Path) -> None:
    kind = "planted links and leftovers"

    def check(place: Path) -> None:
        copy = tmp_path / leftover(place).name
        copy.touch()
        remove_partials(tmp_path / place.name)
        assert copy.exists()

    for place in (tmp_path / "other" / "name", tmp_path.parent / "name", tmp_path / ".." / "name"):
        inject(kind, f"a leftover of {place}", partial(check, place))
    held(kind)


# --- names in messages ------------------------------------------------------------------------------------------------


def test_no_module_is_imported_because_a_message_names_it() -> None:
    kind = "names in messages"
    names = [(module, "run") for module in sorted(sys.stdlib_module_names)]
    names += [("builtins", "eval"), ("os", "system"), ("pipelines.errors", "os.system"), ("pipelines", "errors")]
    names += [("pipelines.processes", "Child"), ("pipelines.processes", "serve"), ("pathlib", "os.system")]

    def check(module: str, name: str) -> None:
        before = set(sys.modules)
        for message in (
            b"\x80\x02c" + f"{module}\n{name}\n".encode() + b".",
            b"\x80\x04" + b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name)) + b"\x93.",
        ):
            with pytest.raises(pickle.UnpicklingError, match="is not allowed in a message"):
                _MessageUnpickler(BytesIO(message)).load()
        assert set(sys.modules) == before

    for module, name in names:
        inject(kind, f"{module}.{name}", partial(check, module, name))
    held(kind)
