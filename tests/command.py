"""`bassl` run in the process of the tests, where torch is loaded already, or in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

import pytest

from bassl_cli import app
from tests.running import ENVIRONMENT


class Run(NamedTuple):
    """How a command ended, and what it left on stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def complaints(self) -> list[str]:
        """Lines on stderr but for the one that says what is being read."""
        return [line for line in self.err.splitlines() if not line.startswith("reading ")]

    @property
    def refusal(self) -> str:
        """The one line with which a command is refused, checked: it printed nothing else, and its exit code is 2."""
        assert (self.code, self.out) == (2, "")
        (line,) = self.complaints
        assert line.startswith("bassl: ")
        return line


def assert_refused(run: Run, *words: str) -> None:
    """Check that a command is refused in one line with these words."""
    line = run.refusal
    assert all(word in line for word in words), line


Bassl = Callable[..., Run]


def running(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *command: str) -> Bassl:
    """A function that runs the command, with its name before all arguments where one is given."""

    def run(*arguments: object) -> Run:
        monkeypatch.setattr(sys, "argv", ["bassl", *command, *map(str, arguments)])
        capfd.readouterr()
        try:
            app.main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return Run(code, *capfd.readouterr())

    return run


def bassl_process(
    command: str,
    folder: Path | None = None,
    environment: Mapping[str, str] = {},
    stdout: int | IO[str] = subprocess.PIPE,
) -> Run:
    """Run ``bassl`` in a process of its own, with arguments separated by spaces."""
    run = subprocess.run(
        [sys.executable, "-m", "bassl_cli", *command.split()],
        cwd=folder,
        env={**ENVIRONMENT, **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    return Run(run.returncode, run.stdout, run.stderr)
