"""Tables on stdout: cells as they are, whole where nobody looks, folded on a terminal that is narrow."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bassl_cli import console

NAME = "a name " * 40
HEADER, ROWS = ("what", "it is", "number"), [(NAME.strip(), "[red]:smile:", "1"), ("b", "two\nlines", "1,000")]


def test_what_goes_to_a_file_is_neither_broken_nor_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    console.show_table(HEADER, ROWS, text=(0, 1), title=NAME)
    title, header, *lines = capsys.readouterr().out.splitlines()
    assert title == NAME
    assert header.split() == ["what", "it", "is", "number"]
    assert [line.rstrip() for line in lines] == [
        f"{NAME.strip()}  [red]:smile:       1",
        f"{'b':{len(NAME.strip())}}  two            1,000",
        f"{'':{len(NAME.strip())}}  lines",
    ]


def test_a_narrow_terminal_has_all_of_it_on_more_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=screen, force_terminal=True, color_system=None, width=40))
    console.show_table(HEADER, ROWS)
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.count("name") for line in lines) == 40
    assert "…" not in screen.getvalue()


def test_columns_without_names_have_no_header(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_table(("", ""), [("stage", "fine-tuned")], text=(0, 1))
    assert capsys.readouterr().out == "stage  fine-tuned\n"
