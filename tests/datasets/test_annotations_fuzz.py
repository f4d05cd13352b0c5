"""Damaged files of every format: a reader answers with one line that names the file, or with a consistent record."""

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.datasets import VideoAnnotation, read_inclusive_ranges, read_text, text_lines
from pipelines.datasets.movienet import read_movienet
from pipelines.datasets.sources import read_annotations, read_bbc, read_ovsd
from pipelines.errors import DatasetError
from pipelines.video.inputs import video_ids
from tests.datasets.annotation_files import scenes_json

CASES_PER_FORMAT = 350


@dataclass(frozen=True)
class Format:
    files: dict[str, str]
    reader: Callable[[Path], list[VideoAnnotation]]
    root: str = "."


SHOT_EDGES = [0, 49, 120, 121, 200, 333, 390, 402, 500]
SHOT_LINES = [f"{first} {end - 1}" for first, end in pairwise(SHOT_EDGES)]
LABELS = [0, 1, 0, -1, 0, 1, 0]

SCENEDETECT_HEADER = (
    "Scene Number,Start Frame,Start Timecode,Start Time (seconds),End Frame,End Timecode,End Time (seconds),"
    "Length (frames),Length (timecode),Length (seconds)"
)

FORMATS = {
    "movienet": Format(
        {
            "scene318/shot_movie318/tt01.txt": "".join(
                f"{first} {end - 1} {first} {(first + end) // 2} {end - 1}\n" for first, end in pairwise(SHOT_EDGES)
            ),
            "scene318/label318/tt01.txt": "".join(f"{shot:04d} {label}\n" for shot, label in enumerate(LABELS)),
            "scene318/meta/split318.json": json.dumps({"train": ["tt01"], "val": ["tt02"], "test": [], "all": 3}),
            "anno/anno.val.ndjson": "".join(
                json.dumps({"video_id": "tt02", "shot_id": f"{i:04d}", "num_shot": 4, "boundary_label": i % 2}) + "\n"
                for i in range(4)
            ),
            **{f"240P_frames/tt01/shot_{shot:04d}_img_{image}.jpg": "" for shot in range(8) for image in range(2)},
        },
        read_movienet,
    ),
    "bbc": Format(
        {
            "annotations/shots/bbc_01.txt": "".join(line.replace(" ", "\t") + "\n" for line in SHOT_LINES),
            "annotations/scenes/annotator_0/bbc_01.txt": "0,1,4,6,8",
            "annotations/shots/bbc_02.txt": "0\t9\n10\t19\n",
            "annotations/scenes/annotator_0/bbc_02.txt": "0,2",
        },
        read_bbc,
    ),
    "ovsd": Format(
        {
            "02_shots.txt": "\n".join(SHOT_LINES),
            "02_scenes.txt": "0\t130\n131\t250\n260\t499",
            "03_shots.txt": "0 9\n10 19\n",
            "03_scenes.txt": "0\t19",
        },
        read_ovsd,
    ),
    "scenes.json": Format({"video.json": json.dumps(scenes_json(), indent=1)}, read_annotations, "video.json"),
    "CSV of scenes": Format(
        {"video.csv": 'Name,Start,End\n"a",0,12.5\nb,12.5,0:30.250\nc,00:00:30.250,00:01:00\n'},
        read_annotations,
        "video.csv",
    ),
    "CSV of PySceneDetect": Format(
        {
            "video-Scenes.csv": "Timecode List:,00:00:02.000\r\n"
            + SCENEDETECT_HEADER
            + "\r\n1,1,00:00:00.000,0.000,50,00:00:02.000,2.000,50,00:00:02.000,2.000"
            + "\r\n2,51,00:00:02.000,2.000,75,00:00:03.000,3.000,25,00:00:01.000,1.000\r\n"
        },
        read_annotations,
        "video-Scenes.csv",
    ),
}

NUMBERS = ["-1", "-0", "+3", "1.5", "nan", "NaN", "inf", "-Infinity", "1e999", "1e3", "0x10", "1_0", "٣"]
NUMBERS += ["", " ", "true", "9" * 12, "9" * 30, "9" * 5000, "2147483648", "9223372036854775808"]
NUMBERS += ["0", "1", "2", "7", "49", "null", '"x"']
VALUES: list[Any] = [None, True, -1, 0, 1, 10**40, 1.5, 1e300, "", "x", "../x", "a\nb", "\ud800"]
VALUES += [[], {}, [[[]]], {"a": [1]}]


def mutated(data: bytes, rng: random.Random, is_json: bool) -> bytes:
    kind = rng.randrange(12 if is_json else 10)
    lines = data.splitlines(keepends=True)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    if kind == 1:
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    if kind == 2:
        at = rng.randrange(len(data))
        return data[:at] + rng.randbytes(rng.randint(1, 20)) + data[at + rng.randrange(3) :]
    if kind == 3:
        i = rng.randrange(len(lines))
        return b"".join(lines[:i] + lines[i + 1 :])
    if kind == 4:
        i = rng.randrange(len(lines))
        return b"".join(lines[: i + 1] + lines[rng.randrange(len(lines)) :])
    if kind == 5:
        rng.shuffle(lines)
        return b"".join(lines)
    if kind in (6, 7):  # one number becomes something else
        places = [i for i, byte in enumerate(data) if chr(byte).isdigit() and not (i and chr(data[i - 1]).isdigit())]
        start = rng.choice(places)
        end = start
        while end < len(data) and chr(data[end]).isdigit():
            end += 1
        return data[:start] + rng.choice(NUMBERS).encode() + data[end:]
    if kind == 8:
        rubbish = [b"", b"\0" * 300, b" \n\n", rng.randbytes(500), b"[" * 200_000, b'{"a":' * 50_000]
        rubbish += [b"null", b"[]", b"{}"]
        return rng.choice([*rubbish, data.decode().encode("utf-16"), data + data, data + b"\xff\xfe", b"1" * 100_000])
    if kind == 9:
        return data.replace(
            rng.choice([b" ", b"\t", b",", b"\n", b"0", b"1"]), rng.choice([b"", b"\0", b"  ", b";", b"-"])
        )
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
            assert ranges.shape == (len(ranges), 2)
            assert len(ranges) > 0
            assert np.isfinite(ranges).all()
            edges = ranges.ravel()
            assert edges[0] >= 0
            assert (np.diff(edges)[::2] > 0).all()
            assert (np.diff(edges)[1::2] >= 0).all()
            assert edges[-1] < 2**31
    lengths = {len(each) for each in (video.shots, video.shots_seconds, video.scene_end) if each is not None}
    lengths |= {video.keyframes.shots} if video.keyframes is not None else set()
    assert len(lengths) <= 1
    assert lengths or video.scenes_frames is not None or video.scenes_seconds is not None
    if video.shots is not None:
        assert video.shots.dtype == np.int64
    if video.scene_end is not None:
        assert video.scene_end.dtype == np.int8
        assert set(video.scene_end.tolist()) <= {-1, 0, 1}
        assert video.scene_end[-1] == 0
    assert video.split in (None, "train", "val", "test", "pretrain")
    assert video.frame_rate is None or 0 < video.frame_rate < 2**31


def put_all(folder: Path, form: Format) -> Path:
    for name, text in form.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder / form.root


def same(first: VideoAnnotation, second: VideoAnnotation) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(vars(first).values(), vars(second).values(), strict=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_label_files_are_refused_or_read_consistently(tmp_path: Path, name: str) -> None:
    form = FORMATS[name]
    root = put_all(tmp_path, form)
    rng = random.Random(name)
    texts = [file for file, text in form.files.items() if text]
    refused = 0
    for case in range(CASES_PER_FORMAT):
        file = rng.choice(texts)
        data = mutated(form.files[file].encode(), rng, "json" in file)
        (tmp_path / file).write_bytes(data)
        try:
            videos = form.reader(root)
        except DatasetError as error:
            refused += 1
            message = str(error)
            assert len(message.splitlines()) == 1, (case, data)
            assert message.isprintable(), (case, data)
            assert Path(file).name in message, (case, message, data)
        else:
            for video in videos:
                assert_sound(video)
            ids = [video.video_id for video in videos]
            assert ids == sorted(set(ids))
        (tmp_path / file).write_bytes(form.files[file].encode())
    assert refused > CASES_PER_FORMAT / 2  # the mutations do harm, and it is seen


@pytest.mark.parametrize("name", FORMATS)
def test_byte_order_marks_windows_line_ends_and_blank_lines_change_nothing(tmp_path: Path, name: str) -> None:
    form = FORMATS[name]
    root = put_all(tmp_path, form)
    expected = form.reader(root)
    for video in expected:
        assert_sound(video)
    for file, text in form.files.items():
        if text:
            changed = "\ufeff" + text.replace("\r\n", "\n").replace("\n", "\r\n") + "\r\n\r\n"
            (tmp_path / file).write_bytes(changed.encode())
    found = form.reader(root)
    assert len(found) == len(expected)
    assert all(same(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", FORMATS)
def test_missing_files_folders_pipes_and_link_loops_are_refused(tmp_path: Path, name: str) -> None:
    """Missing, a folder, a pipe (which would block whoever opens it), a link to itself."""
    form = FORMATS[name]
    root = put_all(tmp_path, form)
    makers: list[Callable[[Path], None]] = [Path.mkdir, lambda path: path.symlink_to(path)]
    if hasattr(os, "mkfifo"):
        makers.append(os.mkfifo)
    for file, text in form.files.items():
        path = tmp_path / file
        if not text:
            continue
        for make in makers:
            path.unlink()
            make(path)
            with pytest.raises(DatasetError) as caught:
                form.reader(root)
            assert path.name in str(caught.value)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
            path.write_bytes(text.encode())


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
    with pytest.raises(DatasetError, match=r"a.txt, line 3: is not UTF-8 text"):
        read_text(path)
    with pytest.raises(DatasetError, match=r"a.txt, line 3: is not UTF-8 text"):
        list(text_lines(path))


LABEL_FILES = ["a.json", "a.csv", "a.chapters.xml", "a.ffmetadata", "a_scenes.txt"]


@pytest.mark.parametrize("name", LABEL_FILES)
def test_huge_files_are_refused_unread(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(2**33)  # a hole: takes no space
    size = 16 if name.endswith(".txt") else 128  # what bassl writes may be larger
    with pytest.raises(DatasetError, match=rf"{path.name}: is larger than {size} MB"):
        read_inclusive_ranges(path, "scene") if size == 16 else read_annotations(path)


@pytest.mark.parametrize(("name", "text"), [("a.json", "[],"), ("a.csv", ","), ("a.chapters.xml", "<a/>")])
def test_files_that_would_take_many_times_their_size_in_memory_are_refused(
    tmp_path: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.datasets.MOST_VALUES", 1000)
    path = tmp_path / name
    path.write_text(text * 1001)
    with pytest.raises(DatasetError, match=rf"{path.name}: has more than 1,000 values"):
        read_annotations(path)


TOO_MANY: dict[str, tuple[str, Callable[[int], str], str]] = {
    "a.csv": ("start,end\n", lambda i: f"{i},{i + 1}\n", ""),
    "b.csv": ("start_frame,end_frame\n", lambda i: "0,1\n", ""),  # their number is known before they are checked
    "a_scenes.txt": ("", lambda i: f"{i} {i}\n", ""),
    "a.ffmetadata": (";FFMETADATA1\n", lambda i: f"[CHAPTER]\nTIMEBASE=1/9\nSTART={i}\nEND={i + 1}\n", ""),
    "a.chapters.xml": (
        "<Chapters><EditionEntry>",
        lambda i: f"<ChapterAtom><ChapterTimeStart>{i // 60}:{i % 60}:0</ChapterTimeStart></ChapterAtom>",
        "</EditionEntry></Chapters>",
    ),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_more_entries_than_a_video_has_shots_are_refused(tmp_path: Path, name: str) -> None:
    head, entry, tail = TOO_MANY[name]
    (tmp_path / name).write_text(head + "".join(map(entry, range(100_001))) + tail)
    with pytest.raises(DatasetError, match=f"{name}: lists more than 100,000 scenes"):
        read_annotations(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"video_id": "a/b"}, "'a/b' is not usable"),
        ({"video_id": ".."}, "'..' is not usable"),
        ({"shots_seconds": np.array([[0, np.nan]])}, "shot 0, from 0.0 to nan, is outside the valid range"),
        ({"scenes_seconds": np.array([[0, np.inf]])}, "scene 0, from 0.0 to inf, is outside the valid range"),
    ],
)
def test_invalid_records_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        VideoAnnotation(**{"video_id": "video", "source": Path("source.txt"), **values})
    assert str(caught.value).startswith("source.txt: ")
