"""Keyframe extraction: correct keyframes, reproducible bytes, done once, and a bad video fails alone."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipelines import video_jobs
from pipelines.errors import BasslError
from pipelines.options import with_options
from pipelines.processes import Child
from pipelines.progress import VideoProgress, VideoResult
from pipelines.stages.extract_keyframes import ExtractSettings, extract_keyframes
from pipelines.stores.keyframes import read_keyframes
from pipelines.video.inputs import fingerprint
from pipelines.video.reader import VideoReader
from pipelines.video.shots import ReaderSettings
from pipelines.video_jobs import VideoTask
from tests import videos
from tests.command import Bassl
from tests.dask_cluster import Cluster
from tests.running import ENVIRONMENT, alive, children_of, leftover, linux, soon
from tests.small_stores import read_jpegs

NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four videos of a few seconds; not to be changed."""
    folder = tmp_path_factory.mktemp("library")
    for seed, name in enumerate(NAMES):
        videos.write_video(folder / f"{name}.mp4", videos.images(70 + 10 * seed, (20, 45), seed=seed), rate=12)
    return folder


@pytest.fixture(scope="module")
def stores(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the stores of the library as an undisturbed run makes them; not to be changed."""
    folder = tmp_path_factory.mktemp("stores")
    assert {result.status for result in extract_keyframes([library], output=folder)} == {"done"}
    return folder


def extract(*inputs: Path | str, output: Path, **settings: object) -> list[VideoResult]:
    return extract_keyframes(inputs, output=output, **settings)


def checksums(folder: Path) -> dict[str, str]:
    """Return the digest of each file of a folder, hidden ones included."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def statuses(results: list[VideoResult]) -> str:
    """Return the status of each video in a word, in the order of their names: such as "kept done"."""
    return " ".join(result.status for result in results)


def test_a_store_has_the_shots_facts_and_keyframes_of_its_video(library: Path, stores: Path) -> None:
    store = read_keyframes(stores / "b.h5")
    assert store.frames.tolist() == [[0, 20], [20, 45], [45, 80]]
    assert np.allclose(store.seconds * 12, store.frames)
    assert store.keyframes.tolist() == [[5, 10, 15], [26, 32, 38], [53, 62, 71]]
    assert (store.video.path, store.video.frames, store.video.width, store.video.height) == ("b.mp4", 80, 160, 96)
    size = (library / "b.mp4").stat().st_size
    assert store.source == {"name": "b.mp4", "bytes": size, "fingerprint": fingerprint(library / "b.mp4")}
    assert store.settings == {"detector": "transitions", "keyframes": 3, "lines": 240, "quality": 90}
    shots = list(VideoReader(library / "b.mp4", ReaderSettings()))
    for shot, jpegs, row in zip(shots, read_jpegs(store, 0, len(shots)), store.keyframes, strict=True):
        for picture, jpeg, index in zip(shot.keyframes, jpegs, row, strict=True):
            stored = np.asarray(Image.open(BytesIO(jpeg)).convert("RGB"))
            assert (videos.number_of(stored), stored.shape) == (index, picture.shape)
            assert np.abs(stored.astype(int) - picture).mean() < 4


def test_settings_determine_the_stored_keyframes(library: Path, stores: Path, tmp_path: Path) -> None:
    extract(library / "a.mp4", output=tmp_path, keyframes=1, lines=48, quality=30, detector="content")
    store = read_keyframes(tmp_path / "a.h5")
    assert store.keyframes.shape == (3, 1)
    assert Image.open(BytesIO(read_jpegs(store, 0, 1)[0][0])).size == (80, 48)
    assert store.settings == {"detector": "content", "keyframes": 1, "lines": 48, "quality": 30}
    extract(library / "b.mp4", output=tmp_path, detector="content", detector_threshold=20.0, min_shot=0.2)
    recorded = read_keyframes(tmp_path / "b.h5").settings
    assert (recorded["detector_threshold"], recorded["min_shot"]) == (20.0, 0.2)


@pytest.mark.real_child
def test_stores_are_the_same_for_any_workers_and_any_path(library: Path, stores: Path, tmp_path: Path) -> None:
    shutil.copytree(library, tmp_path / "elsewhere" / "videos")
    extract(tmp_path / "elsewhere", output=tmp_path / "out", jobs=3)
    assert checksums(tmp_path / "out") == checksums(stores)


def test_a_damaged_video_is_read_again_with_one_thread(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FFmpeg fills in lost data differently for each number of decoding threads."""
    threads: list[int] = []

    class Noted(VideoReader):
        def __init__(self, path: Path, settings: ReaderSettings, progress: Any) -> None:
            threads.append(settings.threads)
            super().__init__(path, settings, progress)

    monkeypatch.setattr("pipelines.video.reader.VideoReader", Noted)
    monkeypatch.setattr(video_jobs, "cores", lambda: 3)
    (result,) = extract(videos.damaged(library / "a.mp4", tmp_path / "a.mp4"), output=tmp_path / "out")
    assert (result.status, "damaged" in result.warnings[0], threads) == ("done", True, [3, 1])
    extract(library / "b.mp4", output=tmp_path / "out")
    assert threads == [3, 1, 3]


@pytest.fixture
def output(stores: Path, tmp_path: Path) -> Path:
    """Make a folder with all stores of the library, of an earlier time."""
    shutil.copytree(stores, tmp_path / "output")
    for path in (tmp_path / "output").iterdir():
        os.utime(path, (1, 1))
    return tmp_path / "output"


def times(folder: Path) -> dict[str, float]:
    return {path.name: path.stat().st_mtime for path in sorted(folder.iterdir())}


def test_finished_stores_are_kept_and_missing_ones_made(library: Path, stores: Path, output: Path) -> None:
    results = extract(library, output=output)
    assert statuses(results) == "kept kept kept kept"
    assert [(result.shots, result.frames) for result in results] == [(3, 70), (3, 80), (3, 90), (3, 100)]
    assert set(times(output).values()) == {1}
    (output / "b.h5").rename(leftover(output / "b.h5"))
    leftover(output / "a.h5").write_bytes(b"half")
    assert statuses(extract(library, output=output)) == "kept done kept kept"
    assert checksums(output) == checksums(stores)
    assert [name for name, time in times(output).items() if time != 1] == ["b.h5"]


OTHER = "was made with other settings ({}); `overwrite=True` makes it again"
DAMAGED = "run `bassl extract-keyframes` with `overwrite=True` on its video"


@pytest.mark.parametrize(
    ("change", "damage", "words"),
    [
        ({"lines": 48, "quality": 91}, bytes, OTHER.format("lines 240 and not 48, quality 90 and not 91")),
        ({"detector": "hash"}, bytes, OTHER.format("detector transitions and not hash")),
        ({}, lambda whole: b"", DAMAGED),
        ({}, lambda whole: whole[:3000], DAMAGED),
    ],
)
def test_a_damaged_or_other_store_is_an_error_and_is_left(
    library: Path, output: Path, change: dict[str, object], damage: Callable[[bytes], bytes], words: str
) -> None:
    path = output / "a.h5"
    path.write_bytes(damage(path.read_bytes()))
    before = checksums(output)
    (result,) = extract(library / "a.mp4", output=output, **change)
    assert result.status == "failed"
    assert result.error.startswith(f"{path}: ")
    assert result.error.endswith(words)
    assert checksums(output) == before


@pytest.mark.parametrize("source", ["a.mp4", "d.mp4"])  # of the same size, and of another
def test_a_store_of_another_video_is_an_error(library: Path, output: Path, tmp_path: Path, source: str) -> None:
    video = tmp_path / "a.mp4"
    content = bytearray((library / source).read_bytes())
    content[len(content) // 2] ^= 1
    video.write_bytes(content)
    (result,) = extract(video, output=output)
    assert result.error == f"{output}/a.h5: was made from another file than {video}; `overwrite=True` makes it again"


def test_overwrite_makes_stores_again_if_it_can(library: Path, stores: Path, output: Path, tmp_path: Path) -> None:
    (output / "a.h5").write_bytes(b"text")
    (tmp_path / "c.mp4").write_bytes(b"text")
    results = extract(library / "a.mp4", library / "b.mp4", tmp_path / "c.mp4", output=output, overwrite=True)
    assert statuses(results) == "done done failed"
    assert checksums(output) == checksums(stores)
    assert [name for name, time in times(output).items() if time == 1] == ["c.h5", "d.h5"]


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_killed_worker_fails_one_video(
    library: Path, stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Doomed(Child):
        def __init__(self, work: object, task: tuple[object, VideoTask[object]]) -> None:
            super().__init__(work, task)
            if task[1].video_id == "b":
                self.process.send_signal(signal.SIGSEGV)

    monkeypatch.setattr(video_jobs, "Child", Doomed)
    results = extract(library, output=tmp_path / "out", jobs=2)
    assert statuses(results) == "done failed done done"
    assert results[1].error == f"{library}/b.mp4: the process that read it died (signal 11); the file may be damaged"
    assert checksums(tmp_path / "out") == {k: v for k, v in checksums(stores).items() if k != "b.h5"}


def test_a_process_that_cannot_start_is_one_line(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(work: object, task: object) -> Child:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(video_jobs, "Child", refuse)
    results = extract(library / "a.mp4", output=tmp_path)
    expected = f"{library}/a.mp4: no process can be started for it (resource temporarily unavailable)"
    assert [result.error for result in results] == [expected]


def test_a_full_disk_gives_one_line_per_video(library: Path, tmp_path: Path) -> None:
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "import pipelines.stages.extract_keyframes as stage\n"
        f"results = stage.extract_keyframes([{str(library)!r}], output='out')\n"
        "print(*[result.error for result in results], sep='\\n')"
    )
    environment = {**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"}  # which would not fit either
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"out/{name}.h5: cannot be written (file too large)" for name in NAMES]
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"detector": "none"}, "detector must be one of transitions, adaptive"),
        ({"keyframes": 0}, "keyframes must be from 1 to 100, not 0"),
        ({"lines": 2}, "lines must be from 16 to 4,320, not 2"),
        ({"inputs": "none.mp4"}, "none.mp4: no such file"),
        ({"inputs": "empty"}, "empty: contains no videos"),
        ({"output": "file/inside"}, "file/inside/a.h5: cannot create its folder "),
    ],
)
def test_unusable_input_is_one_line_and_writes_nothing(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], message: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises((BasslError, ValueError), match=f"^{message}") as caught:
        extract_keyframes(**{"inputs": library, "output": "out"} | wrong)
    assert "\n" not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "empty"}


def test_a_pipe_fails_alone_and_seconds_are_counted_of_others(library: Path, tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe.mp4")
    seconds: list[float] = []
    done, failed = extract_keyframes(
        [pipe, library / "b.mp4"], output=tmp_path / "out", progress=lambda state: seconds.append(state.done)
    )
    assert (done.status, done.shots, done.frames, done.duration) == ("done", 3, 80, pytest.approx(80 / 12))
    assert max(seconds) == pytest.approx(80 / 12)
    assert failed.error.startswith(f"{pipe}: is a pipe")
    assert extract(output=tmp_path) == []


def test_an_interrupt_leaves_nothing(
    library: Path, stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Child] = []

    class Noted(Child):
        def __init__(self, work: object, task: tuple[object, VideoTask[object]]) -> None:
            super().__init__(work, task)
            started.append(self)
            if task[1].video_id == "c":  # this child never says a word, and the interrupt comes meanwhile
                self.process.send_signal(signal.SIGSTOP)
                Thread(target=lambda: (time.sleep(0.3), os.kill(os.getpid(), signal.SIGINT))).start()

    monkeypatch.setattr(video_jobs, "Child", Noted)
    with pytest.raises(KeyboardInterrupt):
        extract(library, output=tmp_path, jobs=2)
    assert not any(alive(child.process.pid) for child in started)
    assert checksums(tmp_path).items() <= checksums(stores).items()
    monkeypatch.undo()
    extract(library, output=tmp_path)
    assert checksums(tmp_path) == checksums(stores)


@pytest.mark.slow
def test_a_run_killed_at_any_moment_continues_to_the_same_bytes(tmp_path: Path) -> None:
    """The run is killed at random several times; unfinished stores are made again, and the children end alone."""
    (tmp_path / "videos").mkdir()
    for seed in range(3):
        cuts = range(100, 1000, 100)
        videos.write_video(tmp_path / "videos" / f"{seed}.mp4", videos.images(1000, cuts, seed=seed), rate=12)
    command = [sys.executable, "-m", "bassl_cli", "extract-keyframes", "videos", "-q", "-j", "2", "-o"]

    def start(output: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*command, output], cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL)

    assert start("undisturbed").wait() == 0
    undisturbed, output = checksums(tmp_path / "undisturbed"), tmp_path / "out"
    unfinished = 0
    for moment in np.random.default_rng(0).uniform(0.0, 1.0, 3):
        run = start("out")
        while run.poll() is None and not children_of(run.pid):
            time.sleep(0.01)
        time.sleep(moment)
        children = children_of(run.pid)
        run.kill()
        run.wait()
        assert all(soon(lambda child=child: not alive(child)) for child in children)
        files = checksums(output) if output.exists() else {}
        assert {name: files[name] for name in files if name.endswith(".h5")}.items() <= undisturbed.items()
        unfinished += not undisturbed.keys() <= files.keys()
        for path in sorted(output.glob("*.h5"))[1:]:  # so that there is something to do each time
            path.unlink()
    assert unfinished > 0
    assert start("out").wait() == 0
    assert checksums(output) == undisturbed


# --- a cluster --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cluster_makes_the_same_stores_without_a_worker(
    library: Path, stores: Path, tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(library, "videos")
    (Path("videos") / "bad.mp4").touch()
    victim = cluster.workers[0]
    lost: set[int] = set()

    def kill_one(state: VideoProgress) -> None:
        if state.result is not None and not lost:
            assert soon(lambda: bool(children_of(victim.pid)), 2) or victim.poll() is None
            lost.update(children_of(victim.pid))
            victim.kill()

    settings = with_options(ExtractSettings, output=Path("out"), dask=cluster.address)
    results = extract_keyframes(["videos"], settings, kill_one)
    assert victim.poll() is not None
    assert statuses(results) == "done done failed done done"
    assert [result.error.rsplit("/", 1)[-1] for result in results if result.error] == ["bad.mp4: is empty"]
    assert soon(lambda: not any(map(alive, lost)))
    assert checksums(tmp_path / "out") == checksums(stores)
    again = extract_keyframes(["videos"], settings, dask=cluster.address)
    assert statuses(again) == "kept kept failed kept kept"


@pytest.mark.slow
def test_a_lost_dask_scheduler_is_an_error(library: Path, stores: Path, tmp_path: Path, cluster: Cluster) -> None:
    def kill(state: VideoProgress) -> None:
        cluster.scheduler.kill()

    with pytest.raises(BasslError) as caught:
        extract_keyframes([library], with_options(ExtractSettings, output=tmp_path / "out", dask=cluster.address), kill)
    expected = f"the Dask scheduler at {cluster.address} is no longer reachable; run again to continue where it stopped"
    assert str(caught.value) == expected
    cluster.close()
    extract(library, output=tmp_path / "out")
    assert checksums(tmp_path / "out") == checksums(stores)


def test_a_missing_dask_cluster_is_an_error(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(video_jobs, "TIMEOUT", 0.1)
    with pytest.raises(BasslError, match=r"^no Dask scheduler answers at tcp://127\.0\.0\.1:9$"):
        extract(library, output=tmp_path, dask="tcp://127.0.0.1:9")


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_table_and_a_line_for_a_bad_video(library: Path, bassl: Bassl) -> None:
    shutil.copytree(library, "movies")
    Path("movies/b.mp4").rename("movies/My video.mp4")
    Path("movies/c.mp4").write_text("no video\n" * 100)
    Path("movies/d.mp4").unlink()
    run = bassl("extract-keyframes", "movies")
    assert run.code == 1
    assert [line.split() for line in run.out.splitlines()] == [
        ["video", "status", "length", "frames", "shots"],
        ["My_video", "done", "6.7", "s", "80", "3"],
        ["a", "done", "5.8", "s", "70", "3"],
        ["c", "failed"],
    ]
    *done, error, summary = run.err.splitlines()
    assert sorted(done) == ["My_video: done", "a: done", "c: failed"]
    assert error.startswith("bassl: movies/c.mp4: not a video that can be read (")
    assert summary == "2 done, 0 kept, 1 failed; stores in data/keyframes"
    assert sorted(path.name for path in Path("data/keyframes").iterdir()) == ["My_video.h5", "a.h5"]
    again = bassl("extract-keyframes", "movies", "--quiet", "--json")
    assert (again.code, again.err) == (1, f"{error}\n")
    assert [(one["video_id"], one["status"], one["frames"]) for one in json.loads(again.out)] == [
        ("My_video", "kept", 80), ("a", "kept", 70), ("c", "failed", 0),
    ]  # fmt: skip


def has_open_files(pid: int, folder: Path) -> bool:
    """Return whether a process has open files in a folder."""
    return any(
        path.readlink().is_relative_to(folder) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()
    )


@linux
def test_an_interrupt_leaves_no_processes_and_no_partial_files(tmp_path: Path) -> None:
    long = videos.write_video(tmp_path / "a.mp4", videos.images(2500, (30, 60), 48, 32, numbered=False))
    shutil.copy(long, tmp_path / "b.mp4")
    run = subprocess.Popen(
        [sys.executable, "-m", "bassl_cli", "extract-keyframes", ".", "-o", "out", "-j", "2"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal does it, the interrupt goes to the whole group
    )
    assert soon(lambda: len(children_of(run.pid)) == 2)
    children = children_of(run.pid)
    # Keyframes of a video that is being read are in a file without a name.
    assert soon(lambda: any(has_open_files(child, tmp_path / "out") for child in children))
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err.splitlines()[-1], "Traceback" in err) == (130, "", "bassl: interrupted", False)
    assert all(soon(lambda child=child: not alive(child)) for child in children)
    assert not list((tmp_path / "out").glob(".*"))
