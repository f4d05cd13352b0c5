"""Windows for training: the right pictures, drawn by seed, in any process, and damage is noticed."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from pipelines.datasets import keyframe_reader as module
from pipelines.datasets.keyframe_reader import KeyframeReader, KeyframeWindows, decode_whole
from pipelines.errors import DatasetError, StoreError
from pipelines.models.encoders import resize_to_square
from pipelines.stages.build_index import IndexSettings, build_index
from pipelines.stores.index import Index, read_index, window_rows, write_index
from tests.datasets.test_movienet import put_labels, put_shots
from tests.small_stores import jpeg, put_store, refusal
from tests.stages.test_build_index import put_frames
from tests.stores.test_index import video

LENGTHS = {"a": 12, "b": 3, "c": 9}
"""Shots of the videos; seeds of their pictures are 0, 1, 2."""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Three stores and an index of them, with some labels."""
    for seed, (name, shots) in enumerate(LENGTHS.items()):
        put_store(tmp_path / "stores" / f"{name}.h5", shots, seed=seed)
    labels = tmp_path / "labels"
    labels.mkdir()
    (labels / "a.csv").write_text("start,end\n0,4\n4,24\n")
    path = tmp_path / "index.h5"
    build_index([tmp_path / "stores"], IndexSettings(output=path, labels=(labels,)))
    return path


def number_of(row: int) -> tuple[int, int]:
    """The seed and the shot of a row."""
    starts = np.cumsum([0, *LENGTHS.values()])
    seed = int(np.searchsorted(starts, row, side="right")) - 1
    return seed, row - int(starts[seed])


def picture(jpeg: bytes, size: int) -> np.ndarray:
    decoded = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return resize_to_square(np.ascontiguousarray(decoded[..., ::-1]), size)


# What a window holds


@pytest.mark.parametrize("edge", ["shift", "clip"])
@pytest.mark.parametrize("neighbours", [1, 4])
def test_all_key_frames_of_every_window(index: Path, edge: Any, neighbours: int) -> None:
    windows = KeyframeWindows(index, neighbours=neighbours, edge=edge, keyframes="all", size=16)
    assert len(windows) == sum(LENGTHS.values())
    first_row = read_index(index).first_row
    for row in range(len(windows)):
        example = windows[row]
        rows = window_rows(first_row, np.array([row]), neighbours, edge)[0]
        assert example["row"] == row
        assert example["rows"].tolist() == rows.tolist()
        pictures = example["pictures"]
        assert pictures.shape == (2 * neighbours + 1, 3, 3, 16, 16)
        assert pictures.dtype == torch.uint8
        for shot, its_row in enumerate(rows.tolist()):
            for k in range(3):
                expected = picture(jpeg(*number_of(its_row), k), 16)
                np.testing.assert_array_equal(pictures[shot, k].permute(1, 2, 0), expected)


def test_labels(index: Path) -> None:
    windows = KeyframeWindows(index, neighbours=1, size=None)
    assert [windows[row]["label"] for row in range(12)] == [0, 1, *[0] * 10]


def test_bytes_as_they_are(index: Path) -> None:
    example = KeyframeWindows(index, neighbours=2, keyframes="all", size=None)[12]  # the first of a film of three shots
    assert "pictures" not in example
    assert example["jpegs"] == [[jpeg(1, shot, k) for k in range(3)] for shot in (0, 0, 0, 1, 2)]


def test_chosen_rows_in_a_batch(index: Path) -> None:
    windows = KeyframeWindows(index, np.array([20, 3, 3]), neighbours=2, size=None)
    assert len(windows) == 3
    batch = windows.__getitems__([2, 0])
    assert [example["row"] for example in batch] == [3, 20]
    assert batch[0]["jpegs"] == windows[1]["jpegs"]


def test_a_drawn_key_frame_is_one_of_its_shot(index: Path) -> None:
    windows = KeyframeWindows(index, neighbours=1, size=None)
    drawn: set[int] = set()
    for epoch in range(6):
        windows.epoch = epoch
        for row in range(len(windows)):
            example = windows[row]
            for its_row, [found] in zip(example["rows"].tolist(), example["jpegs"], strict=True):
                drawn.add([jpeg(*number_of(its_row), k) for k in range(3)].index(found))
    assert drawn == {0, 1, 2}


def test_the_draw_is_determined_by_seed_epoch_and_row(index: Path) -> None:
    def drawn(row: int = 5, seed: int = 0, epoch: int = 0, rows: Any = None) -> list[list[bytes]]:
        windows = KeyframeWindows(index, rows, neighbours=4, size=None, seed=seed)
        windows.epoch = epoch
        return windows[row]["jpegs"]  # type: ignore[no-any-return]

    assert drawn() == drawn()
    assert drawn() == drawn(row=1, rows=np.array([3, 5]))  # wherever the row stands
    assert drawn() != drawn(seed=1)
    assert drawn() != drawn(epoch=1)


def test_a_drawn_picture_is_the_drawn_jpeg_decoded(index: Path) -> None:
    raw, decoded = (KeyframeWindows(index, neighbours=2, size=size, seed=7)[9] for size in (None, 32))
    for [found], pictures in zip(raw["jpegs"], decoded["pictures"], strict=True):
        np.testing.assert_array_equal(pictures[0].permute(1, 2, 0), picture(found, 32))


# Folders of JPEG files


@pytest.fixture
def movienet(tmp_path: Path) -> Path:
    root = tmp_path / "movienet"
    for seed, film in enumerate(("tt01", "tt02")):
        put_shots(root, film)
        put_labels(root, [0, 1, -1, 0], film)
        put_frames(root, film, 5, seed=seed)
    build_index([root], IndexSettings(output=tmp_path / "movienet.h5"))
    return tmp_path / "movienet.h5"


def test_folders_are_read_in_place(movienet: Path) -> None:
    windows = KeyframeWindows(movienet, neighbours=1, keyframes="all", size=None)
    assert windows[9]["jpegs"] == [[jpeg(1, shot, k) for k in range(3)] for shot in (2, 3, 4)]
    assert windows[2]["label"] == 1
    assert windows[1]["label"] == 1
    pictures = KeyframeWindows(movienet, neighbours=1, keyframes="all", size=16)[9]["pictures"]
    np.testing.assert_array_equal(pictures[2, 1].permute(1, 2, 0), picture(jpeg(1, 4, 1), 16))


def test_stores_and_folders_in_one_index(movienet: Path, tmp_path: Path) -> None:
    store = put_store(tmp_path / "zz.h5", 4, seed=9)
    index = build_index([tmp_path / "movienet", store], IndexSettings(output=tmp_path / "both.h5")).index
    windows = KeyframeWindows(index, neighbours=1, keyframes="all", size=None)
    assert windows[0]["jpegs"][1] == [jpeg(0, 1, k) for k in range(3)]
    assert windows[10]["jpegs"][1] == [jpeg(9, 1, k) for k in range(3)]


@pytest.mark.parametrize("size", [None, 16])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        (b"", "is not a JPEG"),
        (b"GIF89a", "is not a JPEG"),
        (b"\x89PNG\r\n\x1a\n", "is not a JPEG"),
        (jpeg(1)[: len(jpeg(1)) // 2], "breaks off"),
    ],
)
def test_a_file_that_is_no_jpeg_is_named(movienet: Path, size: int | None, content: bytes | None, words: str) -> None:
    bad = movienet.parent / "movienet" / "240P_frames" / "tt02" / "shot_0002_img_1.jpg"
    bad.unlink()
    if content is not None:
        bad.write_bytes(content)
    windows = KeyframeWindows(movienet, neighbours=1, keyframes="all", size=size)
    windows[4]
    refusal(lambda: windows[6], bad, words, error=DatasetError)


def test_a_jpeg_of_nothing_is_named(movienet: Path) -> None:
    folder = movienet.parent / "movienet" / "240P_frames" / "tt02"
    (folder / "shot_0002_img_1.jpg").write_bytes(b"\xff\xd8 nothing \xff\xd9")
    windows = KeyframeWindows(movienet, neighbours=1, keyframes="all", size=16)
    refusal(lambda: windows[6], folder, "shot 2", "not a JPEG that can be decoded")


@pytest.mark.parametrize("content", [b"", b"\xff\xd8", b"\xff\xd8\xff\xd9", b"GIF89a", bytes(range(100, 200))])
def test_what_cannot_be_decoded(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a JPEG that can be decoded"):
        decode_whole(content)


# Damage


def test_a_store_that_was_made_again(index: Path, tmp_path: Path) -> None:
    put_store(tmp_path / "stores" / "c.h5", LENGTHS["c"], seed=5)
    windows = KeyframeWindows(index, neighbours=1, size=None)
    windows[0]
    refusal(lambda: windows[20], tmp_path / "stores" / "c.h5", "made again", "build-index")


def test_a_store_that_became_shorter(index: Path, tmp_path: Path) -> None:
    put_store(tmp_path / "stores" / "c.h5", 1, seed=5)
    windows = KeyframeWindows(index, neighbours=1, size=None)
    refusal(lambda: windows[22], tmp_path / "stores" / "c.h5", "made again", "build-index")


def test_a_store_that_is_cut_short(index: Path, tmp_path: Path) -> None:
    store = tmp_path / "stores" / "c.h5"
    opened = read_index(index)
    os.truncate(store, int(opened.jpeg[-1, -1]) - 1)
    windows = KeyframeWindows(opened, neighbours=1, keyframes="all", size=None)
    windows[17]
    refusal(lambda: windows[23], store, "is cut short", "build-index")


def test_a_changed_byte(index: Path, tmp_path: Path) -> None:
    store = tmp_path / "stores" / "c.h5"
    opened = read_index(index)
    content = bytearray(store.read_bytes())
    content[int(opened.jpeg[15 + 4, 1])] ^= 1  # the first byte of key-frame 1 of shot 4
    store.write_bytes(content)
    windows = KeyframeWindows(opened, neighbours=1, keyframes="all", size=None)
    refusal(lambda: windows[20], f"{store}: shot 4 is damaged")
    windows[21]


def test_a_store_that_is_gone(index: Path, tmp_path: Path) -> None:
    (tmp_path / "stores" / "b.h5").unlink()
    windows = KeyframeWindows(index, neighbours=1, size=None)
    refusal(lambda: windows[13], tmp_path / "stores" / "b.h5", "no such file")


def test_a_store_of_bytes_that_are_no_pictures(tmp_path: Path) -> None:
    store = put_store(tmp_path / "a.h5", 2, 1, jpegs=[[jpeg(0)], [b"noise"]])
    index = build_index([store], IndexSettings(output=tmp_path / "i.h5")).index
    assert KeyframeWindows(index, neighbours=1, size=None)[1]["jpegs"][1] == [b"noise"]
    windows = KeyframeWindows(index, neighbours=1, size=8)
    refusal(lambda: windows[1], f"{store}: shot 1", "not a JPEG that can be decoded")


def test_videos_without_key_frames(tmp_path: Path) -> None:
    store = put_store(tmp_path / "b.h5", 2)
    write_index(tmp_path / "none.h5", [video("a")], {})
    refusal(lambda: KeyframeWindows(tmp_path / "none.h5"), tmp_path / "none.h5", "no key-frames of a")
    root = tmp_path / "bbc"
    for folder, text in (("shots", "0\t9\n10\t19\n"), ("scenes/annotator_0", "0,2")):
        (root / folder).mkdir(parents=True)
        (root / folder / "a.txt").write_text(text)
    index = build_index([root, store], IndexSettings(output=tmp_path / "i.h5")).index
    refusal(lambda: KeyframeWindows(index), tmp_path / "i.h5", "no key-frames of a", "leave its rows out")
    refusal(lambda: KeyframeReader(index).read(np.array([0]), np.array([[0]])), tmp_path / "i.h5", "no key-frames")
    assert len(KeyframeWindows(index, np.array([2, 3]), neighbours=1, size=None)[1]["jpegs"]) == 3


@pytest.mark.parametrize("row", [-1, 24])
def test_rows_that_are_not_there(index: Path, row: int) -> None:
    with pytest.raises(IndexError, match="0 to 23"):
        KeyframeWindows(index, np.array([0, row]))


# Processes and files


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="files in use cannot be counted here")
def test_more_videos_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OPEN_FILES", 3)
    for number in range(10):
        put_store(tmp_path / "stores" / f"{number}.h5", 2, 1, seed=number)
    index = build_index([tmp_path / "stores"], IndexSettings(output=tmp_path / "i.h5")).index
    before = open_files()
    windows = KeyframeWindows(index, neighbours=1, size=None)
    opened = open_files()  # the epoch is in shared memory
    for position in np.random.default_rng(0).integers(0, 20, 200).tolist():
        assert windows[position]["jpegs"][1] == [jpeg(position // 2, position % 2, 0)]
        assert open_files() <= opened + 3
    assert open_files() == opened + 3
    del windows
    gc.collect()
    assert open_files() <= before


def test_a_pickled_dataset_is_small_and_the_same(index: Path) -> None:
    windows = KeyframeWindows(index, neighbours=2, size=None, seed=3)
    windows.epoch = 4
    before = windows[7]["jpegs"]
    pickled = pickle.dumps(windows.reader)
    assert len(pickled) < 500
    copy = pickle.loads(pickle.dumps(windows))
    assert copy.epoch == 4
    assert copy[7]["jpegs"] == before


def test_a_fork_after_the_first_use(index: Path) -> None:
    windows = KeyframeWindows(index, neighbours=4, size=32)
    expected = [windows[row]["pictures"] for row in range(24)]
    fork = multiprocessing.get_context("fork")
    receive, send = fork.Pipe(duplex=False)

    def child() -> None:
        send.send([bool(torch.equal(windows[row]["pictures"], expected[row])) for row in range(24)])

    children = [fork.Process(target=child) for _ in range(2)]
    for process in children:
        process.start()
    for _ in children:
        assert receive.poll(60), "a child hangs"
        assert all(receive.recv())
    for process in children:
        process.join(60)
        assert process.exitcode == 0
    assert torch.equal(windows[3]["pictures"], expected[3])  # the children closed none of the parent's files


def check_loader(index: Path, context: str) -> None:
    """A loader with two workers gives what the dataset gives, also in a second epoch, for which its workers live on."""
    windows = KeyframeWindows(index, neighbours=2, size=16)
    alone = KeyframeWindows(index, neighbours=2, size=16)
    loader = DataLoader(
        windows, 5, shuffle=True, num_workers=2, multiprocessing_context=context, persistent_workers=True, timeout=120
    )
    for epoch in (0, 1):
        windows.epoch = alone.epoch = epoch
        seen = []
        for batch in loader:
            for row, rows, label, pictures in zip(
                *(batch[name] for name in ("row", "rows", "label", "pictures")), strict=True
            ):
                expected = alone[int(row)]
                assert torch.equal(rows, expected["rows"])
                assert int(label) == expected["label"]
                assert torch.equal(pictures, expected["pictures"])
                seen.append(int(row))
        assert sorted(seen) == list(range(len(alone)))


def test_a_loader_with_forked_workers(index: Path) -> None:
    check_loader(index, "fork")


def test_a_loader_with_spawned_workers(index: Path, tmp_path: Path) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(
        "if __name__ == '__main__':\n"
        "    import sys\n"
        "    from pathlib import Path\n"
        "    from tests.datasets.test_keyframe_reader import check_loader\n"
        "    check_loader(Path(sys.argv[1]), 'spawn')\n"
        "    print('equal')\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, script, index],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout == "equal\n", done.stderr


def test_damage_in_a_worker(index: Path, tmp_path: Path) -> None:
    (tmp_path / "stores" / "b.h5").unlink()
    loader = DataLoader(KeyframeWindows(index, np.array([13]), neighbours=1, size=16), num_workers=1, timeout=60)
    batches = iter(loader)
    with pytest.raises(StoreError, match=r"b\.h5: cannot be read \(no such file or directory\)"):
        next(batches)
    batches._shutdown_workers()  # left to the garbage collector, that takes five seconds


def test_an_open_index_is_taken_too(index: Path) -> None:
    opened: Index = read_index(index)
    assert KeyframeWindows(opened, neighbours=1, size=None).reader.index is opened
