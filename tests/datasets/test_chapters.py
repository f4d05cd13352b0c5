"""Chapters as scenes: what exports write and what FFmpeg and mkvmerge put into videos is read back."""

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.scene_tables import read_chapters
from pipelines.datasets.sources import read_annotations, read_scenes_of_folder, read_scenes_of_video
from pipelines.errors import DatasetError
from pipelines.outputs.exports import export
from tests.outputs.exporting import VIDEO_23, scene_list
from tests.small_stores import refusal

SCENES = scene_list([30, 31, 29], [0, 2], VIDEO_23)
TIMES = [[scene.start, scene.end] for scene in SCENES.scenes]


def times(path: Path) -> list[list[float]]:
    record = read_scenes_of_video(path)
    return record.scenes_seconds.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["video.chapters.xml", "video.scenes.chapters.xml", "video.xml", "video.ffmetadata"])
def test_exported_chapters_are_read_back(tmp_path: Path, name: str) -> None:
    export(SCENES, tmp_path / name, "ffmetadata" if name.endswith("data") else "matroska")
    np.testing.assert_allclose(times(tmp_path / name), TIMES, atol=1e-6)
    (record,) = read_annotations(tmp_path / name)
    assert record.video_id == "video"


@pytest.mark.skipif(shutil.which("mkvmerge") is None, reason="mkvmerge is not installed")
def test_chapters_inside_a_video_are_read(video: Path, tmp_path: Path) -> None:
    export(SCENES, tmp_path / "video.chapters.xml", "matroska")
    command = ["mkvmerge", "-q", "-o", "video.mkv", "--chapters", "video.chapters.xml", str(video)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    np.testing.assert_allclose(times(tmp_path / "video.mkv"), TIMES, atol=1e-6)


def atom(start: str, more: str = "") -> str:
    return f"<ChapterAtom><ChapterTimeStart>{start}</ChapterTimeStart>{more}</ChapterAtom>"


def edition(*starts: str, hidden: int = 0, default: int = 0) -> str:
    flags = f"<EditionFlagHidden>{hidden}</EditionFlagHidden><EditionFlagDefault>{default}</EditionFlagDefault>"
    return f"<EditionEntry>{flags}{''.join(map(atom, starts))}</EditionEntry>"


HIDDEN = "<ChapterFlagHidden>1</ChapterFlagHidden>"
DISABLED = "<ChapterFlagEnabled>0</ChapterFlagEnabled>"
# editions, and the starts of the chapters that a player shows
EDITIONS = {
    "the first": (edition("0:0:0", "0:0:1") + edition("0:0:2"), [0, 1]),
    "the default one": (edition("0:0:1") + edition("0:0:2", default=1) + edition("0:0:3", default=1), [2]),
    "not the hidden one": (edition("0:0:1", hidden=1) + edition("0:0:2"), [2]),
    "not the hidden default one": (edition("0:0:1") + edition("0:0:2", hidden=1, default=1), [1]),
    "shown chapters": (
        f"<EditionEntry>{atom('0:0:0.5', atom('0:0:0.7'))}{atom('0:0:1', HIDDEN)}{atom('0:0:2', DISABLED)}"
        f"{atom('0:0:3')}</EditionEntry>",
        [0.5, 3],
    ),
}


@pytest.mark.parametrize("kind", EDITIONS)
def test_of_several_editions_the_default_one_that_is_not_hidden_is_read_from_xml_and_video_alike(
    video: Path, tmp_path: Path, kind: str
) -> None:
    text, starts = EDITIONS[kind]
    (tmp_path / "a.chapters.xml").write_text(f'<?xml version="1.0"?>\n<Chapters>{text}</Chapters>')
    assert [start for start, _ in times(tmp_path / "a.chapters.xml")] == starts
    if shutil.which("mkvpropedit") is None:
        pytest.skip("MKVToolNix is not installed")
    for copy, chapters in (("before.mkv", ["--chapters", "a.chapters.xml"]), ("after.mkv", [])):
        subprocess.run(["mkvmerge", "-q", "-o", copy, *chapters, str(video)], cwd=tmp_path, check=True, timeout=60)
    subprocess.run(["mkvpropedit", "-q", "after.mkv", "-c", "a.chapters.xml"], cwd=tmp_path, check=True, timeout=60)
    for copy in ("before.mkv", "after.mkv"):
        assert [start for start, _ in times(tmp_path / copy)] == starts


@pytest.mark.skipif(shutil.which("mkvmerge") is None, reason="MKVToolNix is not installed")
def test_a_video_whose_editions_are_all_hidden_or_damaged_gives_one_line_or_its_chapters(
    video: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.chapters.xml").write_text(
        f'<?xml version="1.0"?>\n<Chapters>{edition("0:0:1", hidden=1)}</Chapters>'
    )
    command = ["mkvmerge", "-q", "-o", "a.mkv", "--chapters", "a.chapters.xml", str(video)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    for path in ("a.mkv", "a.chapters.xml"):
        with pytest.raises(DatasetError, match="has only hidden editions of chapters"):
            times(tmp_path / path)
    content = (tmp_path / "a.mkv").read_bytes()
    place = content.index(b"\x10\x43\xa7\x70")
    for offset in range(4, 24):
        damaged = content[: place + offset] + bytes([content[place + offset] ^ 0x5A]) + content[place + offset + 1 :]
        (tmp_path / "damaged.mkv").write_bytes(damaged)
        with suppress(DatasetError):
            times(tmp_path / "damaged.mkv")


def test_a_chapter_without_an_end_lasts_to_the_next_and_hidden_ones_are_left_out(tmp_path: Path) -> None:
    inside = atom("00:00:02.000")
    (tmp_path / "a.chapters.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<!-- by hand --><Chapters><EditionEntry>'
        + atom("00:00:00.000000000", inside)
        + atom("00:00:05.0", "<ChapterFlagHidden>1</ChapterFlagHidden>")
        + atom("00:00:06.0", "<ChapterFlagEnabled>0</ChapterFlagEnabled>")
        + atom("01:00:10.5")
        + "</EditionEntry><EditionEntry>"
        + atom("00:00:01.0")
        + "</EditionEntry></Chapters>"
    )
    assert [start for start, _ in times(tmp_path / "a.chapters.xml")] == [0, 3610.5]
    assert times(tmp_path / "a.chapters.xml")[0][1] == 3610.5


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


def test_in_a_folder_scenes_json_takes_precedence_over_chapters(tmp_path: Path) -> None:
    SCENES.save(tmp_path / "video.json")
    export(SCENES, tmp_path / "video.chapters.xml", "matroska")
    export(SCENES, tmp_path / "other.ffmeta", "ffmetadata")
    records, problems = read_scenes_of_folder(tmp_path)
    assert ({name: record.source.name for name, record in records.items()}, problems) == (
        {"video": "video.json", "other": "other.ffmeta"},
        [],
    )


TWO = (
    "<ChapterAtom><ChapterTimeStart>00:00:01.0</ChapterTimeStart>{}</ChapterAtom>"
    "<ChapterAtom><ChapterTimeStart>00:00:01.0</ChapterTimeStart>{}</ChapterAtom>"
)
END = "<ChapterTimeEnd>00:00:05.0</ChapterTimeEnd>"


@pytest.mark.parametrize(
    ("ending", "text", "reason"),
    [
        (".ffmetadata", "title=x", "has no chapters"),
        (".ffmetadata", "[CHAPTER]\nEND=3", "'' is not a time of a chapter"),
        (".ffmetadata", "[CHAPTER]\nSTART=1e3\nEND=3", "'1e3' is not a time of a chapter"),
        (".ffmetadata", "[CHAPTER]\nTIMEBASE=1/0\nSTART=1\nEND=3", "'1/0' is not the time base of a chapter"),
        (".ffmetadata", "[CHAPTER]\nTIMEBASE=1/1\nSTART=3\nEND=1", "scene 0, from 3.0 to 1.0, is empty"),
        (".ffmetadata", "[CHAPTER]\nTIMEBASE=999999999/1\nSTART=1\nEND=3", "is outside the valid range"),
        (".xml", "<Chapters><EditionEntry>", "is not XML"),
        (".xml", "<xmeml/>", "outermost element is not <Chapters>"),
        (".xml", "<Chapters/>", "has no chapters"),
        (".xml", "<!DOCTYPE a [<!ENTITY b 'c'>]><Chapters/>", "declares entities"),
        (".xml", "<Chapters><EditionEntry><ChapterAtom/></EditionEntry></Chapters>", "not a time of a chapter"),
        (".xml", f"<Chapters><EditionEntry>{TWO.format(END, '')}</EditionEntry></Chapters>", "scene 1, from 1.0"),
        (".xml", f"<Chapters><EditionEntry>{TWO.format('', END)}</EditionEntry></Chapters>", "scene 0, from 1.0"),
    ],
)
def test_a_damaged_chapter_list_gives_a_one_line_error(tmp_path: Path, ending: str, text: str, reason: str) -> None:
    path = tmp_path / f"video.chapters{ending}"
    path.write_text(f";FFMETADATA1\n{text}\n" if ending == ".ffmetadata" else text)
    refusal(lambda: read_scenes_of_video(path), path, reason, error=DatasetError)


def test_a_video_without_chapters_gives_a_one_line_error(video: Path) -> None:
    with pytest.raises(DatasetError, match="has no chapters"):
        read_chapters(video)
