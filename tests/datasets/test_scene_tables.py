"""Tables, chapters and scenes.json: what exports and other programs write is read, and damage is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scenedetect import FrameTimecode
from scenedetect.output import write_scene_list

from pipelines.datasets.scene_tables import read_scenes_csv
from pipelines.datasets.scenes_json import read_scenes_json
from pipelines.datasets.sources import read_annotations, read_scenes_of_video
from pipelines.errors import DatasetError
from pipelines.outputs.exports import export
from tests.command import Bassl
from tests.datasets.annotation_files import ABSENT, changed, scenes_json
from tests.outputs.exporting import NTSC, VIDEO_23, scene_list
from tests.small_stores import refusal


def put(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8", newline="")
    return path


SCENES = scene_list([30, 31, 29], [0, 2], VIDEO_23)
TIMES = [[scene.start, scene.end] for scene in SCENES.scenes]


def times(path: Path) -> list[list[float]]:
    record = read_scenes_of_video(path)
    return record.scenes_seconds.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "form", "precision"),
    [
        ("video.chapters.xml", "matroska", 1e-6),
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
        ("a.txt", "[0:00] One\n- 0:10.5: Two\n• (0:20)Three\n0:30\nFour", [[0, 10.5], [10.5, 20], [20, 30], [30, 31]]),
        ("a.vtt", "WEBVTT\n\n00:01.500 --> 00:02.000 align:start\nOne --> two\n", [[1.5, 2]]),
        ("a.edl", "TITLE: a\n1 AX V C 00:00:01:00 00:00:02:12 01:00:00:00 01:00:01:12\n* 2 AX", [[1, 2.5]]),
        ("a.edl", "1 AX V C 10:00:01:00 10:00:02:12 00:00:00:00 00:00:01:12", [[0, 1.5]]),
    ],
    ids=["youtube", "brackets and bullets", "webvtt", "edl", "timecode of a camera"],
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


TWO = "<Chapters><EditionEntry>" + atom("0:01", "<ChapterTimeEnd>0:05</ChapterTimeEnd>") + atom("0:01")


@pytest.mark.parametrize(
    ("ending", "text", "reason"),
    [
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
        (".xml", f"{TWO}</EditionEntry></Chapters>", "scene 1, from 1.0"),
    ],
)
def test_a_damaged_chapter_list_gives_a_one_line_error(tmp_path: Path, ending: str, text: str, reason: str) -> None:
    path = tmp_path / f"video.chapters{ending}"
    path.write_text(f";FFMETADATA1\n{text}\n" if ending == ".ffmetadata" else text)
    refusal(lambda: read_scenes_of_video(path), path, reason, error=DatasetError)


def test_a_scenes_json_is_read(tmp_path: Path) -> None:
    content = json.dumps(scenes_json(path="C:\\movies\\My video.mkv"))
    video = read_scenes_json(put(tmp_path / "any.json", content))
    assert video.video_id == "My_video"
    assert video.frame_rate == 25.0
    assert video.shots.tolist() == [[50 * i, 50 * i + 50] for i in range(5)]
    assert video.shots_seconds.tolist() == [[2.0 * i, 2.0 * i + 2] for i in range(5)]
    assert video.scene_end.tolist() == [0, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["version"], 2, "is a scenes.json of version 2; this bassl reads version 1"),
        (["video", "path"], "a\0b.mp4", "is not the path of a video"),
        (["video", "id"], "a\0b", "is not usable as the id of a video"),
        (["shots", 1, "start_frame"], 40, "shot 1, from 40 to 100, starts before the end of shot 0 at 50"),
        (["shots", 1, "end"], 1.0, "shot 1, from 2.0 to 1.0, is empty"),
        (["shots", 1, "index"], 2, "the indexes of its shots do not count from 0"),
        (["scenes", 1], ABSENT, "to the end of its 5 shots"),
        (["scenes", 0, "end_frame"], 99, "scene 1 starts at 100, but scene 0 ends at 99"),
        (["scenes", 0, "start"], 0.1, "scene 0, 0.1 to 4.0, is not where its shots 0 to 1 are"),
    ],
)
def test_a_damaged_scenes_json_is_refused(tmp_path: Path, keys: list[Any], value: Any, message: str) -> None:
    path = put(tmp_path / "a.json", changed(scenes_json(), keys, value))
    refusal(lambda: read_scenes_json(path), path, message, error=DatasetError)


def test_json_that_is_not_a_scenes_json_is_refused(tmp_path: Path) -> None:
    numbers = ("NaN", "1e999", "-1e999", "1" + "0" * 400)
    structures = ("", "{", "[1, 2]", "null", "[" * 100_000, '{"a":' * 100_000, '{"a":1,"a":2}')
    for content in (*structures, *numbers, *(f'{{"a": {number}}}' for number in numbers)):
        path = put(tmp_path / "a.json", content)
        refusal(lambda path=path: read_scenes_json(path), path, error=DatasetError)


GERMAN = ("start;end\n0;1,5\n1,5;3\n", "sep=;\r\nstart;end\r\n0,0;00:01,5\r\n1,500;3,0\r\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start,end\n0,12.5\n12.5,20\n", [[0, 12.5], [12.5, 20]]),
        ("\ufeffScene;Start (s);End (s)\r\n1;0;12.5\r\n2;13;20\r\n", [[0, 12.5], [13, 20]]),
        ("title\tStart Time\tEnd Time\n\nOpening\t0:00\t1:05\nRest\t1:05\t1:02:03.25\n", [[0, 65], [65, 3723.25]]),
        ("start,end\n00:00:00.000,00:00:01.500\n00:00:01.500,00:00:03\n", [[0, 1.5], [1.5, 3]]),
        ('start,end,name\n0,"00:00:01,500","a, b"\n2e0,3.,"c\nd"\n', [[0, 1.5], [2, 3]]),
        ("start,end,,\n0,1,,\n", [[0, 1]]),
        *((text.replace(";", separator), [[0, 1.5], [1.5, 3]]) for text in GERMAN for separator in ";\t"),
    ],
)
def test_a_csv_with_times_is_read(tmp_path: Path, text: str, expected: list[list[float]]) -> None:
    video = read_scenes_csv(put(tmp_path / "video.csv", text))
    assert video.video_id == "video"
    assert video.scenes_frames is None
    assert video.scenes_seconds.tolist() == expected


def test_frames_in_a_csv_count_from_zero_and_are_half_open(tmp_path: Path) -> None:
    video = read_scenes_csv(
        put(tmp_path / "video.scenes.csv", "start_frame,end_frame,start,end\n0,50,0,2\n50,80,2,3.2\n")
    )
    assert video.video_id == "video"
    assert video.scenes_frames.tolist() == [[0, 50], [50, 80]]
    assert video.scenes_seconds.tolist() == [[0, 2], [2, 3.2]]


def test_a_csv_with_frame_timecodes_is_read(tmp_path: Path) -> None:
    path = put(tmp_path / "video.csv", "start,end\n00:00:00:00,00:00:01:12\n00:00:01:12,01:00:00:00\n")
    assert read_scenes_csv(path, 24).scenes_seconds.tolist() == [[0, 1.5], [1.5, 3600]]
    assert read_scenes_csv(path, 24000 / 1001).scenes_seconds[1, 1] == pytest.approx(3603.6)
    for rate, words in ((None, "'00:00:00:00' ends in a frame number"), (12, "beyond the 12 frames of a second")):
        refusal(lambda rate=rate: read_scenes_csv(path, rate), f"{path}, line 2: ", words, error=DatasetError)


@pytest.mark.parametrize("first_line", ["Timecode List:", "00:00:02.000,00:00:05.000", "Scene Number"])
def test_a_csv_of_pyscenedetect_is_read(tmp_path: Path, first_line: str) -> None:
    path = tmp_path / "video-Scenes.csv"
    edges = [FrameTimecode(frame, 25.0) for frame in (0, 50, 125, 250)]
    with path.open("w", newline="") as file:
        cuts = edges[1:-1] if first_line == "Timecode List:" else None
        write_scene_list(file, list(pairwise(edges)), include_cut_list=first_line != "Scene Number", cut_list=cuts)
    assert path.read_text().startswith(first_line)
    video = read_scenes_csv(path)
    assert video.video_id == "video"
    assert video.scenes_frames.tolist() == [[0, 50], [50, 125], [125, 250]]
    assert video.scenes_seconds.tolist() == [[0, 2], [2, 5], [5, 10]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no columns 'start' and 'end'"),
        ("start,end\n", "lists no scenes"),
        ("start,end\n0,1\n1\n", "line 3: has 1 cells, but the header has 2"),
        ("start,end\n0,1e300\n", "line 2: '1e300' is too late a time"),
        ("start,end\n-1,2\n", "line 2: scene 0, from -1.0 to 2.0, is outside the valid range"),
        ("start,end\n\n0,5\n4,6\n", "line 4: scene 1, from 4.0 to 6.0, starts before the end of scene 0 at 5.0"),
        ("start;end\n0;1.234,5\n", "line 2: '1.234,5' is neither seconds nor a timecode"),
        ("start,end,name\n0,5,One, two\n", "has 4 cells, but the header has 3; put quotes around a text with commas"),
    ],
)
def test_a_damaged_csv_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = put(tmp_path / "video.csv", text)
    refusal(lambda: read_scenes_csv(path), path, message, error=DatasetError)


def test_a_folder_of_scene_files_is_read(tmp_path: Path) -> None:
    put(tmp_path / "b.csv", "start,end\n0,1\n")
    put(tmp_path / "x.JSON", scenes_json(path="a.mp4"))
    put(tmp_path / "notes.txt", "not a list of scenes")
    put(tmp_path / ".hidden.csv", "\0")
    assert [video.video_id for video in read_annotations(tmp_path)] == ["a", "b"]
    put(tmp_path / "c.json", scenes_json(path="other/b.mp4"))
    (_, b) = read_annotations(tmp_path)
    assert b.source.name == "c.json", "of a scenes.json and a CSV of one video, as `bassl predict` can write, the first"
    put(tmp_path / "d.json", scenes_json(path="b.mp4"))
    with pytest.raises(DatasetError, match=r"d.json: has the same video b as .*c.json; remove one"):
        read_annotations(tmp_path)


@pytest.mark.parametrize("command", ["export s.json --to otio", "report s.json", "regroup s.json --scenes 2 -o 2.json"])
@pytest.mark.parametrize("name", ["x" * 300 + ".mp4", "/" + "long/" * 2000 + "x.mp4"], ids=["name", "path"])
def test_a_path_that_cannot_exist_counts_as_a_missing_video(bassl: Bassl, command: str, name: str) -> None:
    scene_list([30, 31, 29], [1, 2], path=name).save(Path("s.json"))
    code, _, err = bassl(*command.split())
    assert code == 0, err
    assert all(len(line) < 2100 for line in err.splitlines())
