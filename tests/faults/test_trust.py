"""Folders, files and messages that somebody else made: none runs, moves or names what it must not."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.errors import BasslError
from pipelines.files import atomic_file
from pipelines.settings import RunSettings
from pipelines.training import Peer
from pipelines.training.run_folder import LOG, MODEL, STATE, RunLog, open_run
from tests.faults.conftest import held, inject
from tests.running import leftover, posix

# --- links ------------------------------------------------------------------------------------------------------------

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


def start_run(folder: Path) -> None:
    with open_run(RunSettings(folder, resume=True), {}, Peer(0, 1)), RunLog(folder, 0) as log:
        log.write(LOG, {"step": 1})


@posix
def test_what_is_planted_under_our_names_leads_nowhere(tmp_path: Path) -> None:
    kind, number = "planted links", 0
    own = [STATE, MODEL, LOG, "validation.csv", "tensorboard", leftover(Path(MODEL)).name]

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

    for write, name, what in (
        *((write_file, name, what) for name in ("name", leftover(Path("name")).name) for what in PLANTED),
        *((start_run, name, what) for name in own for what in PLANTED if what not in ("pipe", "hard link")),
    ):
        number += 1
        inject(kind, f"{write.__name__}: {name} is a {what}", partial(check, name, what, write))
    held(kind)
