"""Tables on stdout: complete cells, unwrapped in files and pipes, wrapped on a narrow terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console

from bassl_cli import console
from pipelines.errors import BasslError
from pipelines.progress import TrainingProgress, VideoProgress, VideoResult

NAME = "a name " * 40
HEADER, ROWS = ("what", "it is", "number"), [(NAME.strip(), "[red]:smile:", "1"), ("b", "two\nlines", "1,000")]


def test_table_output_to_a_file_is_neither_wrapped_nor_cut(
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


def test_on_a_narrow_terminal_cells_are_wrapped_onto_more_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=screen, force_terminal=True, color_system=None, width=40))
    console.show_table(HEADER, ROWS)
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.count("name") for line in lines) == 40
    assert "…" not in screen.getvalue()


def test_a_terminal_that_cannot_move_its_cursor_shows_progress_in_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=screen, force_terminal=True, _environ={"TERM": "dumb"}))
    with console.videos_progress(2) as progress:
        progress(VideoProgress("a", 1.0, 2.0))
        progress(VideoProgress("a", result=VideoResult("a", Path("a.mp4"), Path("a.json"), "done")))
    with console.stage_progress("b.mp4") as tell:
        tell("reading", 1.0, 2.0)
    assert screen.getvalue() == "a: done\nreading b.mp4\n"


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("", ["reading", "reading: 200 of 1,270", "scoring 64 videos"]),
        ("a.mp4", ["reading a.mp4", "reading a.mp4: 00:03:20 of 00:21:10"]),
    ],
)
def test_a_stage_whose_output_is_redirected_says_what_it_does_and_every_minute_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: str, lines: list[str]
) -> None:
    clock = iter((0.0, 20.0, 70.0, 70.0, 90.0, 100.0))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with console.stage_progress(file) as tell:
        for done in range(4):
            tell("reading", 100.0 * done, 1270)
        tell("scoring", 0, 64)
    assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize(
    ("epochs", "seeds", "verbose", "lines"), [(20, 5, False, 5), (20, 5, True, 100), (40, 1, False, 10)]
)
def test_a_training_run_prints_less_than_a_screen(
    epochs: int, seeds: int, verbose: bool, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with console.training_progress(verbose) as tell:
        for step in range(epochs * seeds):
            state = TrainingProgress(step + 1, epochs * seeds, step % epochs + 1, epochs, {"loss": 1.0}, speed=0.34)
            tell(replace(state, seeds=seeds))
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == lines
    assert f"epoch {epochs}/{epochs}" in printed[-1]
    assert printed[-1].endswith("loss 1.000  0.3 windows/s")


def test_a_warning_about_the_model_of_many_videos_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    warnings = ("m: not calibrated", "a: short")
    console.print_summary([VideoResult(n, Path(n), Path(n), "done", warnings=warnings) for n in "ab"], "")
    assert capsys.readouterr().err.splitlines()[:-1] == [f"warning: {line}" for line in warnings]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("a.mp4: use `overwrite=True`, or name another `output`", "a.mp4: use --overwrite, or name another --output"),
        ("give its `frame_rate=25`", "give its --frame-rate 25"),
        ("run `bassl finetune` with `init=runs/a b`", "run `bassl finetune` with --init runs/a b"),
        ("`min_scene`: 'x' is not a number", "--min-scene: 'x' is not a number"),
    ],
)
def test_settings_that_a_message_names_are_shown_as_options(
    message: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    console.print_error(message)
    assert capsys.readouterr().err == f"bassl: {shown}\n"


def test_the_last_line_in_a_terminal_says_what_one_would_do_next(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    for name in ("out", "err"):
        monkeypatch.setattr(console, name, Console(file=terminal, force_terminal=True, color_system=None, width=200))
    console.suggest_next("predict", Path("my movie.mp4"))
    console.suggest_next("encode")
    console.suggest_next("regroup", *(Path(f"out/{number}.scenes.json") for number in range(1000)))
    console.suggest_next("regroup", *(Path(f"{number}/scenes.json") for number in range(1000)))
    with monkeypatch.context() as patch:
        patch.setattr(console, "quiet", True)
        console.suggest_next("predict", Path("a.mp4"))
    assert terminal.getvalue().splitlines() == [
        "next: bassl report 'my movie.mp4'  (to view and correct the scenes)",
        "next: bassl finetune  (to train a model; bassl pretrain if there are no labels)",
        "next: bassl report out  (to view and correct the scenes)",
    ]
    monkeypatch.setattr(console, "out", Console(file=io.StringIO()))
    console.suggest_next("predict", Path("a.mp4"))
    assert len(terminal.getvalue().splitlines()) == 3


def test_paths_are_shown_without_steps_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert console.display_path(Path("a/../b/c.json")) == "b/c.json"
    assert console.display_path(Path("../c.json")) == str(tmp_path / "c.json")


def test_an_error_of_one_of_several_files_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(file: Path) -> None:
        raise BasslError(f"{file}: is damaged" if file.name == "a" else "the video has 1 shot")

    with pytest.raises(typer.Exit):
        console.run_each([Path("a"), Path("b")], fail)
    assert capsys.readouterr().err.splitlines() == ["bassl: a: is damaged", "bassl: b: the video has 1 shot"]
