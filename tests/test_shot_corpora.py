"""The benchmark of shot detectors on public corpora, on a stand-in with their files and known boundaries."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from tests.videos import CUTS, FRAMES, images, write_video

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "shot_corpora.py"


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    """Write BBC, AutoShot and ClipShots with the same video; AutoShot has a wrong cut, and ClipShots a transition."""
    lasts = [*(cut - 1 for cut in CUTS), FRAMES - 1]
    lines = "".join(f"{first}\t{last}\n" for first, last in zip((0, *CUTS), lasts, strict=True))
    for corpus, video, labels in (
        ("BBC", "bbc_01", "fixed/01-scenes.txt"),
        ("AutoShot", "7", "annotations/7.txt"),
        ("ClipShots", "a", "annotations/test.json"),
    ):
        path, file = tmp_path / corpus / "videos" / f"{video}.mp4", tmp_path / corpus / labels
        path.parent.mkdir(parents=True)
        file.parent.mkdir(parents=True)
        write_video(path, images(FRAMES, CUTS))
        file.write_text(lines)
    (tmp_path / "AutoShot" / "annotations" / "7.txt").write_text(lines.replace("60", "50").replace("61", "51"))
    (tmp_path / "AutoShot" / "annotations" / "8.txt").write_text(lines)  # its video is no longer available
    transitions = [[CUTS[0] - 1, CUTS[0]], [CUTS[1] - 5, CUTS[1] + 5], [100, 110]]
    labels = {"a.mp4": {"transitions": transitions, "frame_num": FRAMES}, "gone.mp4": {"transitions": []}}
    (tmp_path / "ClipShots" / "annotations" / "test.json").write_text(json.dumps(labels))
    return tmp_path


def test_counts_follow_the_annotations_of_each_corpus_and_stand_beside_published_figures(
    corpora: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.setattr("measure.RESULTS", corpora / "results")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(corpora), "--detectors", "adaptive"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    output = capsys.readouterr()
    assert "AutoShot: 1 of 1 videos have annotations" in output.err
    tables = {table.splitlines()[0].split(" videos")[0]: table for table in output.out.strip().split("\n\n")}
    measured = {name: re.search(r"^adaptive +(.*)$", table, re.M)[1].split() for name, table in tables.items()}  # type: ignore[index]
    assert measured == {
        "BBC, cuts, 1": ["100.00", "100.00", "100.00"],
        "AutoShot, cuts, 1": ["75.00", "75.00", "75.00"],  # one of four ends is elsewhere
        "ClipShots, cuts, 1": ["100.00", "33.33", "50.00"],  # the third cut and the end of the video are not annotated
        "ClipShots, gradual, 1": ["50.00", "100.00", "66.67"],
    }
    assert re.search(r"adaptive, published +87.12 +96.55 +91.59", tables["BBC, cuts, 1"])
    assert json.loads((corpora / "results" / "shot_corpora.json").read_text())["BBC adaptive"]["videos"] == 1
