"""Injected faults of machines, files and links, with a fixed seed: nothing is lost, and each gives one line."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from pipelines.datasets.scene_tables import read_scenes_csv
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.datasets.sources import read_shot_features
from pipelines.errors import BasslError
from pipelines.files import atomic_file, new_files
from pipelines.models.checkpoints import read_arrays, save_model
from pipelines.models.encoders.onnx_encoder import open_onnx_encoder
from pipelines.models.opening import open_model
from pipelines.results.replacing import replace_result, result_version
from pipelines.settings import RunSettings
from pipelines.stages.models import import_checkpoint, list_models
from pipelines.stores.features import open_features, write_features
from pipelines.stores.keyframes import read_keyframes
from pipelines.training import Peer
from pipelines.training.run_folder import LOG, MODEL, STATE, VALIDATION, RunLog, load_state, open_run, read_log
from pipelines.video.decoding import VideoDecoder
from pipelines.video.detectors import read_shot_list
from tests import videos
from tests.outputs.exporting import scene_list
from tests.small_stores import damaged, put_store

pytestmark = pytest.mark.faults


@dataclass(frozen=True)
class Writer:
    """A file that the program writes: a function that writes version 1 or 2, and one that reads which it is."""

    file: str
    write: Callable[[Path, int], object]
    read: Callable[[Path], int]


def _write_scenes(path: Path, version: int) -> None:
    scenes = scene_list([30] * 40)
    replace(scenes, settings={"version": version}).save(path)


def _change_scenes(path: Path, version: int) -> None:
    scenes = scene_list([30] * 40)
    replace_result(path, replace(scenes, settings={"version": version}), result_version(path))


def _write_pieces(path: Path, version: int) -> None:
    names = dict.fromkeys((path.name, "other.bin"), str(version))
    with new_files(path.parent, path.parent, names, (), overwrite=True) as (_, partials, _):
        for partial in partials:
            partial.write_bytes(bytes([version]) * 20_000)


def _read_piece(path: Path) -> int:
    content = path.read_bytes()
    assert content == content[:1] * 20_000
    return content[0]


WRITERS = {
    "scenes.json": Writer("s.json", _write_scenes, lambda path: int(read_scene_list(path).settings["version"])),
    "changed scenes.json": Writer(
        "s.json", _change_scenes, lambda path: int(read_scene_list(path).settings["version"])
    ),
    "model": Writer(
        "model.safetensors",
        lambda path, version: save_model(path, {"w": np.full(5000, version, np.float32)}, "k", {"v": version}),
        lambda path: int(read_arrays(path, "k")[1]["v"]),
    ),
    "keyframe store": Writer(
        "video.h5",
        lambda path, version: put_store(path, shots=4 + version),
        lambda path: len(read_keyframes(path).frames) - 4,
    ),
    "feature store": Writer(
        "video.h5",
        lambda path, version: write_features(path.parent, "e", path.stem, np.full((200, 16), version, np.float32)),
        lambda path: int(open_features(path).features[0, 0]),
    ),
    "pieces of a video": Writer("piece.bin", _write_pieces, _read_piece),
}


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


def left_in(folder: Path) -> list[str]:
    """Return the names of temporary files."""
    return [path.name for path in folder.glob(".*") if path.name != ".bassl.json"]


# --- writing ----------------------------------------------------------------------------------------------------------


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
    writer, path, code = WRITERS[name], tmp_path / WRITERS[name].file, 1
    for number in range(60):
        writer.write(path, 1)
        code = in_child(partial(killed_at, number, partial(writer.write, path, 2)))
        assert code in (0, -signal.SIGKILL)
        assert writer.read(path) in (1, 2)
        writer.write(path, 2)
        assert (writer.read(path), left_in(tmp_path)) == (2, [])
        if code == 0:
            break
    assert number > 1


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_at_any_point_gives_one_line_and_keeps_the_old_file(tmp_path: Path, name: str) -> None:
    writer, path = WRITERS[name], tmp_path / WRITERS[name].file
    writer.write(path, 2)
    size = path.stat().st_size
    writer.write(path, 1)

    def write_within(limit: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        writer.write(path, 2)

    for limit in np.linspace(0, size - 1, 12).astype(int).tolist():
        assert in_child(partial(write_within, limit)) == 3
        assert (writer.read(path), left_in(tmp_path)) == (1, [])
    assert in_child(partial(write_within, size)) == 0


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_system_without_locks_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    writer, path = WRITERS[name], tmp_path / WRITERS[name].file
    for number in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
        monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(number, os.strerror(number))))
        writer.write(path, 1)
        writer.write(path, 2)
        assert writer.read(path) == 2


def write_file(folder: Path) -> None:
    with atomic_file(folder / "name") as partial:
        partial.write_text("whole")


def start_run(folder: Path) -> None:
    with open_run(RunSettings(folder, resume=True), {}, Peer(0, 1)), RunLog(folder, 0) as log:
        log.write(LOG, {"step": 1})


@pytest.mark.parametrize("target", ["", "letter", "new"])
@pytest.mark.parametrize(
    ("write", "name"), [(write_file, "name"), *((start_run, n) for n in (STATE, MODEL, LOG, VALIDATION, "tensorboard"))]
)
def test_a_link_in_the_place_of_a_file_of_ours_leads_nowhere(
    tmp_path: Path, write: Callable[[Path], None], name: str, target: str
) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    (home / "letter").write_text("mine")
    (folder / name).symlink_to(home / target)
    with suppress(BasslError):
        write(folder)
    assert {path.name: path.read_text() for path in home.iterdir()} == {"letter": "mine"}


# --- damaged files ----------------------------------------------------------------------------------------------------


def write_first(folder: Path, name: str) -> Path:
    WRITERS[name].write(folder / WRITERS[name].file, 1)
    return folder / WRITERS[name].file


def write_text(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def write_shot_features(folder: Path) -> Path:
    shots, ends = np.arange(20)[:, None] * 10 + np.array([0, 10]), np.isin(np.arange(20), (7, 19))
    np.savez(folder / "video.npz", features=np.ones((20, 8), np.float32), shots=shots, scene_end=ends.astype(np.uint8))
    return folder / "video.npz"


def write_video(folder: Path, name: str) -> Path:
    return videos.write_video(folder / name, videos.images(8, (4,), 64, 48))


def read_video(path: Path) -> None:
    with VideoDecoder(path, threads=1) as video:
        times = [time for _, time, _ in video.frames()]
    assert times == sorted(set(times))
    assert video.facts.frames == len(times) > 0


# Damaged stores are tested where these are read.
DAMAGED: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "scenes.json": (partial(write_first, name="scenes.json"), read_scene_list),
    "CSV of scenes": (partial(write_text, name="s.csv", text="start,end\n0,1.5\n1.5,3\n3,0:09.5\n"), read_scenes_csv),
    "list of shots": (
        partial(write_text, name="s.txt", text="0 24\n25 60\n61 99\n"),
        partial(read_shot_list, frame_rate=24.0),
    ),
    "features (.npz)": (write_shot_features, read_shot_features),
    "video (.mp4)": (partial(write_video, name="video.mp4"), read_video),
    "video (.ts)": (partial(write_video, name="video.ts"), read_video),
    "video (.mkv)": (partial(write_video, name="video.mkv"), read_video),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_gives_one_line_or_a_consistent_result(tmp_path: Path, name: str) -> None:
    make, read = DAMAGED[name]
    path = make(tmp_path)
    read(path)  # undamaged, it is sound
    for _, content in list(damaged(path.read_bytes(), 440, 60)):
        path.write_bytes(content)
        with suppress(BasslError):
            read(path)


def test_every_damaged_model_is_refused(tmp_path: Path) -> None:
    path = write_first(tmp_path, "model")
    for _, content in damaged(path.read_bytes(), 440, 60, seed=1):
        path.write_bytes(content)
        with pytest.raises(BasslError):
            read_arrays(path, "k")


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


@pytest.mark.parametrize("name", READERS)
def test_an_input_that_is_not_a_file_or_is_huge_is_one_line(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "device").symlink_to("/dev/zero")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**35)
    (tmp_path / "folder").mkdir()
    for fault in ("pipe", "loop", "device", "sparse", "folder", "missing"):
        assert in_child(partial(READERS[name], tmp_path / fault)) == 3, fault
