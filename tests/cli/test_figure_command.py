"""`bassl figure` as people meet it: what it writes, what it says, and where it stands in the help."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PIL import Image

from bassl_cli import app
from tests.scored_things import put_csv, put_index, put_scenes


def run_here(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["bassl", *map(str, arguments)])
    monkeypatch.setenv("BASSL_DEBUG", "0")
    try:
        app.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_all_four_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    put_index(Path("data"))
    (store,) = Path("data/features").glob("*.h5")
    put_scenes(Path("a.json"))
    put_csv(Path("t.csv"), 0, 20, 50)
    Path("runs/a").mkdir(parents=True)
    Path("runs/a/log.csv").write_text("step,epoch,loss\n1,1,2\n2,1,1\n")
    for arguments, made in (
        (("similarity", store, "--video", "npz/00", "--first", 3, "--shots", 8), "similarity.png"),
        (("pseudo-boundaries", "npz/00:9", "npz/01:4", "--neighbours", 4), "pseudo-boundaries.png"),
        (("boundaries", "a.json", "--truth", "t.csv"), "boundaries.png"),
        (("curves", "runs/a", "--label", "mine"), "curves.png"),
    ):
        capfd.readouterr()
        assert run_here(monkeypatch, "figure", *arguments) == 0
        assert capfd.readouterr() == ("", f"wrote {made}\n")
        with Image.open(made) as picture:
            assert picture.width > 400
    assert run_here(monkeypatch, "figure", "curves", "runs/a", "-q", "-o", "new/c.pdf") == 0
    assert capfd.readouterr() == ("", "")
    assert Path("new/c.pdf").exists()
    assert run_here(monkeypatch, "figure", "curves", "runs/a", "-o", "c.gif") == 2
    assert capfd.readouterr().err == "bassl: c.gif: a plot is a .png, .svg or .pdf file; name one\n"


def test_help_names_the_figures_among_the_other_commands(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_here(monkeypatch, "--help") == 0
    whole = capfd.readouterr().out
    assert whole.index("│ report ") < whole.index("│ figure ") < whole.index("│ export ")
    assert run_here(monkeypatch, "figure", "--help") == 0
    own = capfd.readouterr().out
    for name in ("similarity", "pseudo-boundaries", "boundaries", "curves", "Example: bassl figure"):
        assert name in own


def test_a_wrong_figure_suggests_the_right_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_here(monkeypatch, "figure", "curve") == 2
    assert "Did you mean 'curves'" in capfd.readouterr().err
