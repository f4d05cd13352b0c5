"""Many videos: the same results in order, in this process and in children; what fails, fails alone."""

import os
import signal
from pathlib import Path
from time import sleep

import pytest

from pipelines.errors import BasslError
from pipelines.files import atomic_file
from pipelines.progress import ReportVideo, VideoProgress, VideoResult
from pipelines.video_jobs import VideoTask, run_video_tasks

Task = VideoTask[None]
NAMES = ("slow", "kept", "damaged", "refused", "fast")


def measure(task: Task, report: ReportVideo) -> VideoResult:
    if task.video_id == "damaged":
        raise BasslError("the video has 1 shot")
    for frames in range(1, 1000 if task.video_id == "slow" else 2):
        report(VideoProgress(task.video_id, frames / 24))
    return task.result(frames=frames, warnings=("dark",))


def write_and_wait(task: Task, report: ReportVideo) -> VideoResult:
    with atomic_file(task.output) as partial:
        partial.write_bytes(b"half")
        report(VideoProgress(task.video_id))
        sleep(600)
    return task.result()


def write_and_crash(task: Task, report: ReportVideo) -> VideoResult:
    with atomic_file(task.output):
        os.kill(os.getpid(), signal.SIGKILL)
    return task.result()


def count_cores(task: Task, report: ReportVideo) -> VideoResult:
    return task.result(frames=task.cores)


def existing(task: Task) -> VideoResult | None:
    if task.video_id == "refused":
        raise BasslError(f"{task.output}: was made with other settings")
    return task.result("kept", frames=7) if task.video_id == "kept" else None


@pytest.mark.real_child
@pytest.mark.parametrize("jobs", [None, 1, 3])
def test_results_are_in_order_and_reported_once_wherever_the_videos_are_processed(
    tmp_path: Path, jobs: int | None
) -> None:
    tasks = [Task(Path(f"{name}.mp4"), name, tmp_path / f"{name}.h5", None) for name in NAMES]
    states: list[VideoProgress] = []
    results = run_video_tasks(tasks, measure, existing=existing, jobs=jobs, progress=states.append)
    assert results == [
        tasks[0].result(frames=999, warnings=("dark",)),
        tasks[1].result("kept", frames=7),
        tasks[2].failed("damaged.mp4: the video has 1 shot"),
        tasks[3].failed(f"{tmp_path}/refused.h5: was made with other settings"),
        tasks[4].result(frames=1, warnings=("dark",)),
    ]
    assert results[2].error == "damaged.mp4: the video has 1 shot", "errors of several name the video"
    assert sorted(state.video_id for state in states if state.result) == sorted(NAMES)
    assert [24 * state.done for state in states if state.video_id == "slow"] == pytest.approx([*range(1, 1000), 0])


@pytest.mark.real_child
def test_a_child_that_is_stopped_or_crashes_leaves_no_partial_file(tmp_path: Path) -> None:
    task = Task(Path("a.mp4"), "a", tmp_path / "a.h5", None)

    def interrupt(state: VideoProgress) -> None:
        assert len(list(tmp_path.iterdir())) == 1, "the partial file"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_video_tasks([task], write_and_wait, jobs=1, progress=interrupt)
    assert list(tmp_path.iterdir()) == []
    (result,) = run_video_tasks([task], write_and_crash, jobs=1)
    assert result.error.startswith("a.mp4: the process that read it died (signal 9)")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("jobs", "share"), [(None, 8), (1, 8), (2, 4), (3, 2), (100, 2)])
def test_videos_that_are_processed_at_a_time_share_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int | None, share: int
) -> None:
    monkeypatch.setattr("pipelines.video_jobs.cores", lambda: 8)
    tasks = [Task(Path(f"{name}.mp4"), name, tmp_path / f"{name}.h5", None) for name in ("kept", "a", "b", "c", "d")]
    results = run_video_tasks(tasks, count_cores, existing=existing, jobs=jobs)
    assert [result.frames for result in results] == [7, *[share] * 4]
