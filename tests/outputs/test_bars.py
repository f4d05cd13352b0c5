"""Progress bars of programs: in a terminal, in a notebook, and nowhere else."""

from __future__ import annotations

import io
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from bassl import predict, predict_videos
from pipelines.outputs import bars


def test_progress_true_shows_a_bar_in_a_terminal(
    video: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    terminal = partial(Console, file=screen, force_terminal=True, _environ={"TERM": "xterm"})
    monkeypatch.setattr(bars, "Console", lambda **options: terminal())
    predict(video, model=model, progress=True)
    assert "video.mp4" in screen.getvalue()
    predict_videos(video, tmp_path, model=model, jobs=1, progress=True)
    assert "1 video" in screen.getvalue()
    assert "100%" in screen.getvalue()


def test_progress_true_shows_a_bar_in_a_notebook(video: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    display = ModuleType("IPython.display")

    def show(content: str, display_id: bool) -> Any:
        shown.append(content)
        return SimpleNamespace(update=shown.append)

    vars(display).update(HTML=str, display=show)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(bars, "Console", lambda **options: Console(force_jupyter=True))
    predict(video, model=model, progress=True)
    assert shown[0] == "<progress></progress>"
    assert '<progress value="1.000"></progress> reading video.mp4' in shown
    assert shown[-1] == "", "the bar disappears at the end"


def test_progress_true_shows_nothing_in_a_file(video: Path, model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    predict(video, model=model, progress=True)
    assert tuple(capfd.readouterr()) == ("", "")
