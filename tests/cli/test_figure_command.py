"""`bassl figure`: what it writes and prints, and its place in the help."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from tests.command import Bassl
from tests.scored_things import put_csv, put_index, put_scenes


def test_each_figure_command_writes_its_figure(bassl: Bassl) -> None:
    put_index(Path("data"))
    put_scenes(Path("a.json"))
    put_csv(Path("t.csv"), 0, 20, 50)
    Path("runs/a").mkdir(parents=True)
    Path("runs/a/log.csv").write_text("step,epoch,loss\n1,1,2\n2,1,1\n")
    for arguments, made in (
        (("pseudo-boundaries", "npz/00:9", "npz/01:4", "--neighbors", 4), "pseudo-boundaries.png"),
        (("boundaries", "a.json", "--truth", "t.csv"), "boundaries.png"),
        (("curves", "runs/a", "--label", "mine"), "curves.png"),
    ):
        assert bassl("figure", *arguments) == (0, "", f"wrote {made}\n")
        with Image.open(made) as picture:
            assert picture.width > 400
    assert bassl("figure", "curves", "runs/a", "-q", "-o", "new/c.pdf") == (0, "", "")
    assert Path("new/c.pdf").exists()
    refused = bassl("figure", "curves", "runs/a", "-o", "c.gif")
    assert (refused.code, refused.err) == (
        2,
        "bassl: c.gif: unknown extension .gif; a plot is a .png, .svg or .pdf file\n",
    )


def test_a_misspelled_figure_name_is_answered_with_the_right_one(bassl: Bassl) -> None:
    refused = bassl("figure", "curve")
    assert refused.code == 2
    assert "Did you mean 'curves'" in refused.err
