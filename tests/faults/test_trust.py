"""Folders, files and messages that somebody else made: none runs, moves or names what it must not."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from bassl_cli import app, config
from pipelines.errors import BasslError
from pipelines.files import atomic_file
from pipelines.training.run_folder import MODEL, STATE, open_run_folder
from tests.faults.conftest import held, inject
from tests.running import leftover, posix
from tests.small_stores import damaged, refusal

# --- a folder's bassl.toml --------------------------------------------------------------------------------------------

COMMANDS = {name: app.load(name) for name in app.MODULES}


def options_of(name: str) -> Iterator[tuple[str, str]]:
    """Each option of a command that a file could set, with a value as TOML."""
    kinds: dict[Any, str] = {bool: "true", int: "3", float: "0.5"}
    command = COMMANDS[name]
    if getattr(command, "commands", None):
        return
    for parameter in command.params:
        for flag in parameter.opts:
            if flag.startswith("--") and parameter.name in command.callback.options:
                option = command.callback.options[parameter.name]
                yield flag.removeprefix("--"), kinds.get(option.kind, f'"{(*option.choices, "3")[0]}"')


def test_a_folder_sets_only_options_that_are_listed(tmp_path: Path) -> None:
    kind = "options in a folder's bassl.toml"

    def check(name: str, word: str, value: str) -> None:
        file = config.ConfigFile(tmp_path / "bassl.toml", tomllib.loads(f"[{name}]\n{word} = {value}\n"), False)
        if word in config.FOLDER_OPTIONS.get(name, ()):
            config.command_defaults([file], COMMANDS, name)
        else:
            refusal(
                lambda: config.command_defaults([file], COMMANDS, name),
                f"{file.path}: [{name}] {word}: a folder's file may not set this",
                error=BasslError,
            )

    for name in COMMANDS:
        for word, value in options_of(name):
            inject(kind, f"{name} {word}", partial(check, name, word, value))
    held(kind)


def test_a_damaged_configuration_gives_one_line_with_its_name(tmp_path: Path) -> None:
    path, kind = tmp_path / "bassl.toml", "damaged: bassl.toml"
    whole = b'\xef\xbb\xbf[predict]\nthreshold = 0.4\nmin-scene = "0:10"\nreport = true\n[export]\nshots = false\n'

    def check() -> None:
        message = f"{path}: "
        try:
            config.command_defaults(config.read(path), COMMANDS, "predict")
        except BasslError as error:
            message = str(error)
        assert message.startswith(f"{path}: ")
        assert "\n" not in message

    for fault, content in damaged(whole, 440, 60):
        path.write_bytes(content)
        inject(kind, fault, check)
    for depth, signs in product((10, 1000, 5000), ("[]", "{}")):
        path.write_bytes(b"[predict]\nscenes = " + (signs[0] * depth).encode())
        inject(kind, f"{depth} {signs}", check)
    held(kind)


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
    with open_run_folder(folder, resume=True, overwrite=False), (folder / "log.csv").open("a") as log:
        log.write("step\n")


@posix
def test_what_is_planted_under_our_names_leads_nowhere(tmp_path: Path) -> None:
    kind, number = "planted links", 0
    own = [STATE, MODEL, "log.csv", "validation.csv", "tensorboard", leftover(Path(MODEL)).name]

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
