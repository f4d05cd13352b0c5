"""Injected faults of machines, files and videos, with a fixed seed: nothing is lost, and each gives one line."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.datasets.scene_tables import read_scenes_csv
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.datasets.sources import read_shot_features
from pipelines.errors import BasslError
from pipelines.models.checkpoints import read_arrays, save_model
from pipelines.models.encoders.onnx_encoder import open_onnx_encoder
from pipelines.models.opening import open_model
from pipelines.stages.models import import_checkpoint, list_models
from pipelines.stores.features import open_features
from pipelines.stores.keyframes import read_keyframes
from pipelines.training import Peer
from pipelines.training.run_folder import load_state, read_log
from pipelines.video.decoding import VideoDecoder
from pipelines.video.detectors import read_shot_list
from tests import videos
from tests.faults.conftest import held, inject
from tests.faults.writers import WRITERS
from tests.small_stores import damaged

MUTATIONS = 500


def in_child(work: Callable[[], object]) -> int:
    """Return the exit code of a forked process: 0, 3 for a BasslError of one line, or another for a bug."""

    def run() -> None:
        try:
            work()
        except BasslError as error:
            os._exit(3 if "\n" not in str(error) else 4)
        os._exit(0)

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    child.join(60)
    if child.exitcode is None:
        child.kill()
        raise AssertionError("waits for ever")
    return child.exitcode


# --- kills ------------------------------------------------------------------------------------------------------------


def killed_at(number: int, write: Callable[[], object]) -> None:
    """Write, and be killed at the beginning of the given call that changes a file, a folder or a name."""
    calls = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1
            return original(*arguments, **named)

        return call

    for name in ("rename", "replace", "fsync", "unlink", "rmdir", "mkdir", "open"):
        setattr(os, name, counted(getattr(os, name)))
    Path.write_bytes = counted(Path.write_bytes)  # type: ignore[method-assign]
    write()


@pytest.mark.parametrize("name", WRITERS)
def test_a_kill_at_any_point_leaves_the_complete_old_or_new_file(tmp_path: Path, name: str) -> None:
    writer = WRITERS[name]
    kind = f"kills: {name}"

    def check(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / writer.file
        writer.write(path, 1)
        code = in_child(partial(killed_at, number, partial(writer.write, path, 2)))
        assert code in (0, -signal.SIGKILL), f"exit code {code}"
        finished.append(code == 0)
        assert writer.read(path) in (1, 2)
        writer.write(path, 2)
        assert writer.read(path) == 2
        left = [entry.name for entry in folder.iterdir() if entry.name.startswith(".") and entry.name != ".bassl.json"]
        assert not left, f"left behind: {left}"

    finished: list[bool] = []
    for number in range(60):
        inject(kind, f"call {number}", partial(check, number))
        if finished and finished[-1]:
            break
    held(kind)


# --- full disks -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no small file system can be mounted here, which needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_at_any_point_gives_one_line_and_keeps_the_old_file(small_disk: Path, name: str) -> None:
    writer, kind = WRITERS[name], f"full disks: {name}"
    path, ballast = small_disk / writer.file, small_disk / "ballast"
    codes = set()

    def check(free: int) -> None:
        ballast.unlink(missing_ok=True)
        writer.write(path, 1)
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        os.truncate(ballast, max(0, ballast.stat().st_size - free))
        code = in_child(partial(writer.write, path, 2))
        codes.add(code)
        assert code in (0, 3), f"exit code {code}"
        assert writer.read(path) == (2 if code == 0 else 1)
        assert {entry.name for entry in small_disk.iterdir()} <= {path.name, "ballast", "other.bin", ".bassl.json"}

    for free in range(0, 100 * 1024, 4096):
        inject(kind, f"{free} bytes free", partial(check, free))
    held(kind)
    assert 3 in codes


# --- file systems without locks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_system_without_locks_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    writer = WRITERS[name]

    def check(number: int) -> None:
        def flock(descriptor: int, operation: int) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", flock)
        writer.write(tmp_path / writer.file, 1)
        writer.write(tmp_path / writer.file, 2)
        assert writer.read(tmp_path / writer.file) == 2

    for number in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
        inject("no locks", f"{name}: {errno.errorcode[number]}", partial(check, number))
    held("no locks")


# --- damaged files ----------------------------------------------------------------------------------------------------


def write_first(folder: Path, name: str) -> Path:
    WRITERS[name].write(folder / WRITERS[name].file, 1)
    return folder / WRITERS[name].file


def write_text(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def write_features(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    shots = np.arange(20)[:, None] * 10 + np.array([0, 10])
    np.savez(
        folder / "video.npz",
        features=rng.normal(size=(20, 8)).astype(np.float32),
        shots=shots,
        scene_end=np.eye(1, 20, 7, np.uint8)[0] | np.eye(1, 20, 19, np.uint8)[0],
    )
    return folder / "video.npz"


def write_video(folder: Path, name: str) -> Path:
    return videos.write_video(folder / name, videos.images(8, (4,), 64, 48))


def read_video(path: Path) -> None:
    with VideoDecoder(path, threads=1) as video:
        last = -1.0
        for _, time, _ in video.frames():
            assert time > last
            last = time
        assert video.facts.frames > 0


DAMAGED: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "scenes.json": (partial(write_first, name="scenes.json"), read_scene_list),
    "model": (partial(write_first, name="model"), lambda path: read_arrays(path, "k")),
    "keyframe store": (partial(write_first, name="keyframe store"), read_keyframes),
    "feature store": (partial(write_first, name="feature store"), open_features),
    "CSV of scenes": (partial(write_text, name="s.csv", text="start,end\n0,1.5\n1.5,3\n3,0:09.5\n"), read_scenes_csv),
    "list of shots": (
        partial(write_text, name="s.txt", text="0 24\n25 60\n61 99\n"),
        partial(read_shot_list, frame_rate=24.0),
    ),
    "features (.npz)": (write_features, read_shot_features),
    "video (.mp4)": (partial(write_video, name="video.mp4"), read_video),
    "video (.ts)": (partial(write_video, name="video.ts"), read_video),
    "video (.mkv)": (partial(write_video, name="video.mkv"), read_video),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_gives_one_line_or_a_consistent_result(tmp_path: Path, name: str) -> None:
    make, read = DAMAGED[name]
    path, kind = make(tmp_path), f"damaged: {name}"

    def check() -> None:
        with suppress(BasslError):
            read(path)

    read(path)  # undamaged, it is sound
    for fault, content in list(damaged(path.read_bytes(), MUTATIONS - 60, 60)):
        path.write_bytes(content)
        inject(kind, fault, check)
    held(kind)


def test_every_damaged_model_is_refused(tmp_path: Path) -> None:
    path, kind = write_first(tmp_path, "model"), "damaged: model is refused"

    def check() -> None:
        with pytest.raises(BasslError):
            read_arrays(path, "k")

    for fault, content in damaged(path.read_bytes(), MUTATIONS - 60, 60, seed=1):
        path.write_bytes(content)
        inject(kind, fault, check)
    held(kind)


# --- inputs that are not files ----------------------------------------------------------------------------------------


def in_run(name: str, read: Callable[[Path], object], path: Path) -> None:
    """Read the folder of a run in which a file is the given one."""
    run = path.parent / "runs" / "run"
    run.mkdir(parents=True, exist_ok=True)
    save_model(run / "model.safetensors", {}, "boundary", {"crn": "mlp", "encoder": None, "training": {}})
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(path)
    read(run)


def list_one(run: Path) -> None:
    if error := list_models(run.parent)[-1].error:
        raise BasslError(error)


READERS: dict[str, Callable[[Path], object]] = {
    "ONNX encoder": open_onnx_encoder,
    "model": lambda path: read_arrays(path, "boundary"),
    "any model": open_model,
    "checkpoint": lambda path: import_checkpoint(path, path.parent / "out.safetensors"),
    "log of a run": partial(in_run, "log.csv", lambda run: read_log(run / "log.csv")),
    "state of a run": partial(in_run, "state.pt", lambda run: load_state(run, {}, Peer(0, 1))),
    "result of a run": partial(in_run, "result.json", list_one),
    "scenes.json": read_scene_list,
    "list of shots": partial(read_shot_list, frame_rate=24.0),
    "CSV of scenes": read_scenes_csv,
    "features (.npz)": read_shot_features,
    "keyframe store": read_keyframes,
    "feature store": open_features,
}


def odd_files(folder: Path) -> dict[str, Path]:
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "device").symlink_to("/dev/zero")
    with (folder / "sparse").open("wb") as file:
        file.truncate(2**35)
    (folder / "folder").mkdir()
    return {name: folder / name for name in ("pipe", "loop", "device", "sparse", "folder", "missing")}


@pytest.mark.parametrize("name", READERS)
def test_an_input_that_is_not_a_file_or_is_huge_is_one_line(tmp_path: Path, name: str) -> None:
    def check(path: Path) -> None:
        assert in_child(partial(READERS[name], path)) == 3

    for fault, path in odd_files(tmp_path).items():
        inject("inputs that are not files", f"{name}: {fault}", partial(check, path))
    held("inputs that are not files")


# --- odd videos -------------------------------------------------------------------------------------------------------


def odd_videos(folder: Path) -> dict[str, Path]:
    def video(name: str, frames: int = 8, width: int = 64, height: int = 48, **how: Any) -> Path:
        return videos.write_video(folder / name, videos.images(frames, (), width, height), **how)

    def file(name: str, content: bytes) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    whole = video("whole.mp4").read_bytes()
    late = video("late.ts", container_options={"output_ts_offset": "90000"}).read_bytes()
    (folder / "loop.mp4").symlink_to("loop.mp4")
    os.mkfifo(folder / "pipe")
    return {
        "one frame": video("one.mp4", 1),
        "two pixels": video("two.mkv", 4, 2, 2, codec="ffv1"),
        "odd size": video("odd.mkv", 4, 33, 17, codec="ffv1"),
        "very wide": video("wide.mp4", 4, 4096, 16),
        "still slides": video("slides.mkv", 3, times=[0.0, 60.0, 3600.0]),
        "backward clock": video("back.mkv", 4, times=[0.0, 0.04, 0.08, 0.12]),
        "cut short": file("short.mp4", whole[: len(whole) // 2]),
        "joined": file("joined.ts", video("first.ts").read_bytes() + late),
        "joined sizes": file("other.ts", video("a.ts").read_bytes() + video("b.ts", 8, 128, 96).read_bytes()),
        "sound only": videos.write_sound(folder / "sound.m4a"),
        "cover image": videos.write_sound_with_cover(folder / "cover.mp3"),
        "huge frame": videos.write_huge_frame(folder / "bomb.gif"),
        "endless playlist": file("list.m3u8", b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nlate.ts\n"),
        "empty": file("empty.mp4", b""),
        "text": file("text.mp4", b"once upon a time\n" * 50),
        "zeros": file("zeros.mp4", bytes(100_000)),
        "still image": videos.write_still(folder / "still.png"),
        "folder": folder,
        "loop of links": folder / "loop.mp4",
        "not there": folder / "gone.mp4",
    }


def test_an_odd_video_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    def check(path: Path) -> None:
        code = in_child(partial(read_video, path))
        assert code in (0, 3), f"exit code {code}"

    for fault, path in odd_videos(tmp_path).items():
        inject("odd videos", fault, partial(check, path))
    held("odd videos")
