"""Damaged files of every format: a reader answers with one line that names the file, or with a consistent record."""

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.datasets import VideoAnnotation, read_text, text_lines
from pipelines.datasets.movienet import read_movienet
from pipelines.datasets.sources import read_annotations, read_bbc, read_ovsd
from pipelines.errors import DatasetError
from pipelines.video.inputs import video_ids
from tests.datasets.annotation_files import BBC_SHOTS, put_bbc, put_ovsd, scenes_json
from tests.datasets.movienet_files import VIDEO, put, put_keyframes, put_labels, put_list, put_shots, put_split
from tests.running import posix
from tests.small_stores import refusal

CASES_PER_FORMAT = 150


def put_movienet_files(root: Path) -> Path:
    put_shots(root)
    put_labels(root, [0, 1, 0, -1])
    put_split(root, train=[VIDEO], val=["tt02"])
    put_list(root, "val", [0, 1, 0, 1], "tt02")
    put_keyframes(root)
    return root


CSV = 'Name,Start,End\n"a",0,12.5\nb,12.5,0:30.250\nc,00:00:30.250,00:01:00\n'
FORMATS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], list[VideoAnnotation]]]] = {
    "movienet": (put_movienet_files, read_movienet),
    "bbc": (lambda root: put_bbc(root, BBC_SHOTS, "0,1,3,4"), read_bbc),
    "ovsd": (lambda root: put_ovsd(root, "0 110\n111 270\n271 399"), read_ovsd),
    "scenes.json": (lambda root: put(root / "video.json", json.dumps(scenes_json(), indent=1)), read_annotations),
    "CSV": (lambda root: put(root / "video.csv", CSV), read_annotations),
}
"""How files of a format are made, and how they are read by what making them returns."""


def contents(folder: Path) -> dict[Path, bytes]:
    """The files of a folder that have content."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size}


NUMBERS = ["-1", "-0", "+3", "1.5", "nan", "NaN", "inf", "-Infinity", "1e999", "1e3", "0x10", "1_0", "٣"]
NUMBERS += ["", " ", "true", "9" * 12, "9" * 30, "9" * 5000, "2147483648", "9223372036854775808"]
NUMBERS += ["0", "1", "2", "7", "49", "null", '"x"']
VALUES: list[Any] = [None, True, -1, 0, 1, 10**40, 1.5, 1e300, "", "x", "../x", "a\nb", "\ud800"]
VALUES += [[], {}, [[[]]], {"a": [1]}]


RUBBISH = [b"", b"\0" * 300, b" \n\n", b"[" * 200_000, b'{"a":' * 50_000, b"1" * 100_000]
RUBBISH += [b"null", b"[]", b"{}", b"\xff\xfe"]


def damaged(data: bytes, rng: random.Random, is_json: bool) -> bytes:
    lines = data.splitlines(keepends=True)
    at, line, number = rng.randrange(len(data)), rng.randrange(len(lines)), rng.choice([*re.finditer(rb"\d+", data)])
    ways = [
        data[:at],
        data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
        data[:at] + rng.randbytes(rng.randint(1, 20)) + data[at + rng.randrange(3) :],
        b"".join(lines[:line] + lines[line + 1 :]),
        b"".join(lines[: line + 1] + lines[rng.randrange(len(lines)) :]),
        b"".join(rng.sample(lines, len(lines))),
        *[data[: number.start()] + rng.choice(NUMBERS).encode() + data[number.end() :]] * 2,
        rng.choice([*RUBBISH, data.decode().encode("utf-16"), data + data]),
        data.replace(rng.choice([b" ", b"\t", b",", b"\n", b"0", b"1"]), rng.choice([b"", b"\0", b"  ", b";", b"-"])),
    ]
    return damaged_json(data, rng) if is_json and rng.random() < 0.2 else rng.choice(ways)


def damaged_json(data: bytes, rng: random.Random) -> bytes:
    """Replace or remove a value somewhere inside a document, or inside one line of several."""
    documents = [json.loads(line) for line in data.splitlines()] if data.count(b"\n{") else [json.loads(data)]
    holder: Any = documents
    key: Any = rng.randrange(len(documents))
    while isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.85:
        holder = holder[key]
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    if rng.random() < 0.25:
        del holder[key]
    else:
        holder[key] = rng.choice(VALUES)
    return "\n".join(json.dumps(document) for document in documents).encode()


def assert_sound(video: VideoAnnotation) -> None:
    """The invariants of a record, written independently."""
    assert re.fullmatch(r"[^/]+", video.video_id)
    assert video.video_id.isprintable()
    for ranges in (video.shots, video.shots_seconds, video.scenes_frames, video.scenes_seconds):
        if ranges is not None:
            edges = ranges.ravel()
            assert ranges.shape == (len(edges) // 2, 2)
            assert 0 <= edges[0] < edges[-1] < 2**31  # not NaN, and not empty
            assert (np.diff(edges)[::2] > 0).all()
            assert (np.diff(edges)[1::2] >= 0).all()
    lengths = {len(each) for each in (video.shots, video.shots_seconds, video.scene_end) if each is not None}
    lengths |= {video.keyframes.shots} if video.keyframes is not None else set()
    assert len(lengths) == 1 or (not lengths and (video.scenes_frames is not None or video.scenes_seconds is not None))
    if video.scene_end is not None:
        assert set(video.scene_end.tolist()) <= {-1, 0, 1}
        assert video.scene_end[-1] == 0
    assert video.split in (None, "train", "val", "test", "pretrain")
    assert video.frame_rate is None or 0 < video.frame_rate < 2**31


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_label_files_are_refused_or_read_consistently(tmp_path: Path, name: str) -> None:
    put_files, read = FORMATS[name]
    root, rng, refused = put_files(tmp_path), random.Random(name), 0
    files = contents(tmp_path)
    for _ in range(CASES_PER_FORMAT):
        file = rng.choice([*files])
        data = damaged(files[file], rng, "json" in file.suffix)
        file.write_bytes(data)
        try:
            videos = read(root)
        except DatasetError as error:
            refused, message = refused + 1, str(error)
            assert message.isprintable(), data  # one line
            assert file.name in message, data
        else:
            for video in videos:
                assert_sound(video)
            ids = [video.video_id for video in videos]
            assert ids == sorted(set(ids))
        file.write_bytes(files[file])
    assert refused > CASES_PER_FORMAT / 2  # the damage does harm, and it is seen


@pytest.mark.parametrize("name", FORMATS)
def test_byte_order_marks_windows_line_ends_and_blank_lines_change_nothing(tmp_path: Path, name: str) -> None:
    put_files, read = FORMATS[name]
    root = put_files(tmp_path)
    expected = read(root)
    for file, content in contents(tmp_path).items():
        file.write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n") + b"\r\n\r\n")
    for video, plain in zip(read(root), expected, strict=True):
        assert_sound(plain)
        for value, expected_value in zip(vars(video).values(), vars(plain).values(), strict=True):
            np.testing.assert_array_equal(value, expected_value)


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@posix
@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_a_pipe_or_a_link_to_itself_in_place_of_a_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    put_files, read = FORMATS[name]
    root = put_files(tmp_path)
    for file, content in contents(tmp_path).items():
        for make, remove in ((Path.mkdir, Path.rmdir), (os.mkfifo, Path.unlink), (link_to_itself, Path.unlink)):
            file.unlink()
            make(file)
            refusal(lambda: read(root), file.name, error=DatasetError)
            remove(file)
            file.write_bytes(content)


ODD_NAMES = ["new\nline", os.fsdecode(b"latin\xe9"), "3.45.12\u202fPM", "a\u3000b", "no\xa0break", "a\u200db"]


@pytest.mark.parametrize("name", [*ODD_NAMES, "soft\xadly", "a b!"])
def test_labels_named_as_a_video_have_its_id(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.csv").write_text("start,end\n0,1\n")
    (record,) = read_annotations(tmp_path)
    assert [record.video_id] == video_ids([tmp_path / f"{name}.mov"])
    assert_sound(record)


def test_text_errors_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\n\xff\n")
    for read in (read_text, lambda path: list(text_lines(path))):
        refusal(lambda read=read: read(path), "a.txt, line 3: is not UTF-8 text", error=DatasetError)


@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.chapters.xml", "a.ffmetadata", "a_scenes.txt"])
def test_huge_files_are_refused_unread(tmp_path: Path, name: str) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(2**33)  # a hole: takes no space
    is_text, path = name.endswith(".txt"), tmp_path / name  # what bassl writes may be larger
    refusal(
        lambda: read_annotations(tmp_path if is_text else path),
        f"{name}: is larger than {16 if is_text else 128} MB",
        error=DatasetError,
    )


@pytest.mark.parametrize(("name", "text"), [("a.json", "[],"), ("a.csv", ","), ("a.chapters.xml", "<a/>")])
def test_files_that_would_take_many_times_their_size_in_memory_are_refused(
    tmp_path: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.datasets.MOST_VALUES", 1000)
    (tmp_path / name).write_text(text * 1001)
    refusal(lambda: read_annotations(tmp_path), f"{name}: has more than 1,000 values", error=DatasetError)


CHAPTER = "[CHAPTER]\nTIMEBASE=1/9\nSTART={0}\nEND={1}\n"
ATOM = "<ChapterAtom><ChapterTimeStart>{0}:0:0</ChapterTimeStart></ChapterAtom>"
ENTRIES = {
    "a.csv": ("start,end\n", "{0},{1}\n", ""),
    "b.csv": ("start_frame,end_frame\n", "0,1\n", ""),  # their number is known before they are checked
    "a_scenes.txt": ("", "{0} {0}\n", ""),
    "a.ffmetadata": (";FFMETADATA1\n", CHAPTER, ""),
    "a.chapters.xml": ("<Chapters><EditionEntry>", ATOM, "</EditionEntry></Chapters>"),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_more_entries_than_a_video_has_shots_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for module in ("pipelines.datasets", "pipelines.datasets.scene_tables"):
        monkeypatch.setattr(f"{module}.MOST_SHOTS", 1000)
    head, entry, tail = ENTRIES[name]
    (tmp_path / name).write_text(head + "".join(entry.format(i, i + 1) for i in range(1001)) + tail)
    refusal(lambda: read_annotations(tmp_path), f"{name}: lists more than 1,000 scenes", error=DatasetError)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"video_id": "a/b"}, "source.txt: 'a/b' is not usable"),
        ({"video_id": ".."}, "source.txt: '..' is not usable"),
        ({"shots_seconds": np.array([[0, np.nan]])}, "shot 0, from 0.0 to nan, is outside the valid range"),
        ({"scenes_seconds": np.array([[0, np.inf]])}, "scene 0, from 0.0 to inf, is outside the valid range"),
    ],
)
def test_invalid_records_are_refused(values: dict[str, Any], message: str) -> None:
    record = {"video_id": "video", "source": Path("source.txt"), **values}
    refusal(lambda: VideoAnnotation(**record), message, error=DatasetError)
