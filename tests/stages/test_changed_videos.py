"""A video that is replaced or written to while a command reads it: an error, and no file is made of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import BasslError
from pipelines.options import with_options
from pipelines.stages.extract_keyframes import ExtractSettings
from pipelines.stages.learn import learn
from pipelines.stages.report import report
from pipelines.stages.save_images import save_images
from pipelines.stages.settings import SoundSettings
from pipelines.stages.split import split, write_chapters
from pipelines.video_jobs import VideoTask
from tests import videos
from tests.predicting import predict_file
from tests.small_stores import refusal
from tests.video.test_sound import index_of

VIDEO, SCENES, OUT = Path("video.mp4"), Path("scenes.json"), Path("out")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "video.mp4"
    return videos.write_video(path, videos.images(videos.FRAMES, videos.CUTS), sound_seconds=5.0)


@pytest.fixture
def place(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: a video of an hour ago, its scenes and an index."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(original, VIDEO)
    os.utime(VIDEO, (1, 1))
    videos.scenes_of(VIDEO).save(SCENES)
    index_of(tmp_path / "index.h5", "video")
    return tmp_path


def replaced() -> None:
    """Replace the video by a copy with the same size and time."""
    shutil.copy2(VIDEO, "copy.mp4")
    Path("copy.mp4").replace(VIDEO)


def written_in_place() -> None:
    with VIDEO.open("r+b") as file:
        file.seek(5000)
        file.write(b"x")


def truncated() -> None:
    os.truncate(VIDEO, 6000)


def extract(name: str, settings: Any) -> Callable[[Callable[..., None]], object]:
    """Return a stage that works in child processes, in this one."""
    task = VideoTask(VIDEO, "video", OUT / "video.h5", settings)
    return lambda progress: import_module(f"pipelines.stages.{name}")._extract(task, progress)


STAGES: dict[str, Callable[[Callable[..., None]], object]] = {
    "extract-keyframes": extract("extract_keyframes", with_options(ExtractSettings(), output=OUT)),
    "extract-sound": extract("extract_sound", with_options(SoundSettings(), index=Path("index.h5"), output=OUT)),
    "predict": lambda progress: predict_file(VIDEO, OUT / "a.json", progress=progress),
    "report": lambda progress: report(SCENES, progress=progress, output=OUT / "page.html"),
    "save-images": lambda progress: save_images(SCENES, progress=progress, output=OUT),
    "split": lambda progress: split(SCENES, progress=progress, output=OUT),
    "split --exact": lambda progress: split(SCENES, progress=progress, output=OUT, exact=True),
    "split --chapters": lambda progress: write_chapters(SCENES, progress=progress, output=OUT),
    "learn": lambda progress: learn(SCENES, progress=progress, output=OUT / "my.safetensors"),
}


@pytest.mark.parametrize(
    ("stage", "change"),
    [*((stage, replaced) for stage in STAGES), *(("split", change) for change in (written_in_place, truncated))],
)
def test_no_stage_writes_anything_of_a_video_that_changes(place: Path, stage: str, change: Callable[[], None]) -> None:
    OUT.mkdir()
    changes = [change]

    def progress(*state: Any) -> None:
        total = getattr(state[-1], "total", state[-1])
        if changes and total is not None:  # the video is open
            changes.pop()()

    refusal(lambda: STAGES[stage](progress), "video.mp4: was changed while it was read", error=BasslError)
    assert not changes
    assert list(OUT.iterdir()) == []
