"""Chapters as scenes: what exports write and what FFmpeg and mkvmerge put into videos is read back."""

import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.scene_tables import read_chapters
from pipelines.datasets.sources import read_scenes_of_video
from pipelines.errors import DatasetError
from pipelines.outputs.exports import export
from tests.outputs.exporting import NTSC, VIDEO_23, scene_list
from tests.small_stores import refusal

SCENES = scene_list([30, 31, 29], [0, 2], VIDEO_23)
TIMES = [[scene.start, scene.end] for scene in SCENES.scenes]


def times(path: Path) -> list[list[float]]:
    record = read_scenes_of_video(path)
    return record.scenes_seconds.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "form", "precision"),
    [
        ("video.chapters.xml", "matroska", 1e-6),
        ("video.scenes.chapters.xml", "matroska", 1e-6),
        ("video.xml", "matroska", 1e-6),
        ("video.ffmetadata", "ffmetadata", 1e-6),
        ("video.scenes.vtt", "webvtt", 5e-4),
        ("video.scenes.edl", "edl", 1e-6),
        ("video.scenes.youtube.txt", "youtube", 1),
        ("video.csv", "csv", 1e-3),
    ],
)
def test_exported_scenes_are_read_back(tmp_path: Path, name: str, form: str, precision: float) -> None:
    export(SCENES, tmp_path / name, form)
    record = read_scenes_of_video(tmp_path / name, float(VIDEO_23))
    np.testing.assert_allclose(record.scenes_seconds[:, 0], [start for start, _ in TIMES], atol=precision)
    if form != "youtube":
        np.testing.assert_allclose(record.scenes_seconds, TIMES, atol=precision)
    assert record.open_end == (form == "youtube")
    assert record.video_id == "video"


@pytest.mark.parametrize("rate", [NTSC, 2 * NTSC])
def test_drop_frame_timecodes_are_read_to_the_frame(tmp_path: Path, rate: Fraction) -> None:
    export(scene_list([1800, 16200, 20000], rate=rate), tmp_path / "video.edl", "edl")
    assert ";" in (tmp_path / "video.edl").read_text()
    record = read_scenes_of_video(tmp_path / "video.edl", float(rate))
    np.testing.assert_allclose(record.scenes_seconds[:, 0] * float(rate), [0, 1800, 18000], atol=1e-3)
    with pytest.raises(DatasetError, match=r"video.edl, line 4: .* ends in a frame number; specify the frame rate"):
        read_scenes_of_video(tmp_path / "video.edl")


@pytest.mark.skipif(shutil.which("mkvmerge") is None, reason="mkvmerge is not installed")
def test_chapters_inside_a_video_are_read(video: Path, tmp_path: Path) -> None:
    export(SCENES, tmp_path / "video.chapters.xml", "matroska")
    command = ["mkvmerge", "-q", "-o", "video.mkv", "--chapters", "video.chapters.xml", str(video)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    np.testing.assert_allclose(times(tmp_path / "video.mkv"), TIMES, atol=1e-6)


def atom(start: str, more: str = "") -> str:
    return f"<ChapterAtom><ChapterTimeStart>{start}</ChapterTimeStart>{more}</ChapterAtom>"


def test_a_chapter_without_an_end_lasts_to_the_next_and_those_inside_others_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.chapters.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<!-- by hand --><Chapters><EditionEntry>'
        + atom("00:00:00.000000000", atom("00:00:02.000"))
        + atom("01:00:10.5")
        + "</EditionEntry></Chapters>"
    )
    assert [start for start, _ in times(tmp_path / "a.chapters.xml")] == [0, 3610.5]
    assert times(tmp_path / "a.chapters.xml")[0][1] == 3610.5


@pytest.mark.parametrize(
    ("name", "text", "chapters"),
    [
        ("a.txt", "0:00 Opening\n1:05\tThe harbor, 2:00 later\n\n1:02:03 End", [[0, 65], [65, 3723], [3723, 3724]]),
        ("a.txt", "Chapters of my film:\n0:00 One\n(no more)\n0:10 Two", [[0, 10], [10, 11]]),
        ("a.txt", "[0:00] One\n- 0:10.5: Two\n• (0:20)Three\n0:30\nFour", [[0, 10.5], [10.5, 20], [20, 30], [30, 31]]),
        ("a.vtt", "WEBVTT\n\n00:01.500 --> 00:02.000 align:start\nOne --> two\n", [[1.5, 2]]),
        ("a.edl", "TITLE: a\n1 AX V C 00:00:01:00 00:00:02:12 01:00:00:00 01:00:01:12\n* 2 AX", [[1, 2.5]]),
        ("a.edl", "1 AX V C 10:00:01:00 10:00:02:12 00:00:00:00 00:00:01:12", [[0, 1.5]]),
    ],
    ids=["youtube", "description", "brackets and bullets", "webvtt", "edl", "timecode of a camera"],
)
def test_chapters_of_lists_are_read(tmp_path: Path, name: str, text: str, chapters: list[list[float]]) -> None:
    (tmp_path / name).write_text(text)
    assert read_scenes_of_video(tmp_path / name, 24.0).scenes_seconds.tolist() == chapters


@pytest.mark.parametrize(
    ("text", "chapters"),
    [
        ("[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=1500\ntitle=a=b", [[0, 1.5]]),
        ("[CHAPTER]\r\nSTART=0\r\nEND=2000000000\r\n", [[0, 2]]),  # in nanoseconds
        ("title=x\n[CHAPTER]\nTIMEBASE=1001/30000\nSTART=30\nEND=60\n[STREAM]\nEND=9", [[1.001, 2.002]]),
        ("[CHAPTER]\nTIMEBASE=1/2\nSTART=2\n[CHAPTER]\nTIMEBASE=1/1\nSTART=3\nEND=4\n", [[1, 3], [3, 4]]),
        ("[CHAPTER]\n; a note\nTIMEBASE=1/1\nSTART=3\nEND=4\ntitle=a\\\nEND=9\\\n[CHAPTER]\n#END=5", [[3, 4]]),
        ("".join(f"key{i}=\n" for i in range(300_000)) + "[CHAPTER]\nTIMEBASE=1/1\nSTART=0\nEND=1", [[0, 1]]),
    ],
    ids=["usual", "nanoseconds", "other sections", "without an end", "escaped line ends", "many tags"],
)
def test_chapters_of_ffmetadata_are_read(tmp_path: Path, text: str, chapters: list[list[float]]) -> None:
    path = tmp_path / "video.ffmetadata"
    path.write_text(f";FFMETADATA1\n{text}\n", newline="")
    np.testing.assert_allclose(times(path), chapters)


TWO = f"<Chapters><EditionEntry>{atom('0:01', '<ChapterTimeEnd>0:05</ChapterTimeEnd>')}{atom('0:01')}</EditionEntry></Chapters>"


@pytest.mark.parametrize(
    ("ending", "text", "reason"),
    [
        (".ffmetadata", "title=x", "has no chapters"),
        (".ffmetadata", "[CHAPTER]\nEND=3", "has a chapter without START"),
        (".ffmetadata", "[CHAPTER]\nTIMEBASE=1/0\nSTART=1\nEND=3", "another TIMEBASE than a fraction"),
        (".ffmetadata", "[CHAPTER]\nTIMEBASE=1/1\nSTART=3\nEND=1", "scene 0, from 3.0 to 1.0, is empty"),
        (".xml", "<Chapters><EditionEntry>", "is not XML"),
        (".xml", "<xmeml/>", "has no chapters"),
        (".xml", "<!DOCTYPE a [<!ENTITY b 'c'>]><Chapters/>", "declares entities"),
        (
            ".xml",
            "<Chapters><EditionEntry><ChapterAtom/></EditionEntry></Chapters>",
            "is neither seconds nor a timecode",
        ),
        (".xml", TWO, "scene 1, from 1.0"),
    ],
)
def test_a_damaged_chapter_list_gives_a_one_line_error(tmp_path: Path, ending: str, text: str, reason: str) -> None:
    path = tmp_path / f"video.chapters{ending}"
    path.write_text(f";FFMETADATA1\n{text}\n" if ending == ".ffmetadata" else text)
    refusal(lambda: read_scenes_of_video(path), path, reason, error=DatasetError)


def test_a_video_without_chapters_gives_a_one_line_error(video: Path) -> None:
    with pytest.raises(DatasetError, match="has no chapters"):
        read_chapters(video)
