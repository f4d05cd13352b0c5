"""The video generator: a video matches its truth, and finding its scenes is a real but solvable task."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import av
import jsonschema
import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.datasets.synthetic import (
    SyntheticVideo,
    SyntheticVideoSettings,
    plan_video,
    render_keyframes,
    write_video,
)
from pipelines.errors import BasslError
from tests.scenes_schema import SCHEMA
from tests.small_stores import refusal

TINY = SyntheticVideoSettings(seed=3, scenes=3, shot_seconds=(0.5, 1.0), frame_rate=8.0, width=64, height=48)
MEDIUM = SyntheticVideoSettings(
    seed=1, scenes=4, shots_per_scene=(4, 6), shot_seconds=(1.0, 2.0), width=192, height=108, dissolves=2
)


@pytest.fixture(scope="module")
def medium(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SyntheticVideo]:
    path = tmp_path_factory.mktemp("video") / "video.mp4"
    return path, write_video(path, MEDIUM)


@pytest.fixture(scope="module")
def frames(medium: tuple[Path, SyntheticVideo]) -> NDArray[np.float32]:
    return decode(medium[0])


def decode(path: Path) -> NDArray[np.float32]:
    """All frames in gray, (frames, height, width)."""
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="gray") for frame in container.decode(video=0)]).astype(np.float32)


def test_the_truth_covers_the_video_and_is_written_beside_it(
    medium: tuple[Path, SyntheticVideo], frames: NDArray[np.float32]
) -> None:
    path, video = medium
    written = path.with_name("video.scenes.json")
    jsonschema.validate(json.loads(written.read_text()), SCHEMA)
    truth = read_scene_list(written)
    assert truth.video.path == str(path)
    assert (truth.video.width, truth.video.height, truth.video.frame_rate) == (192, 108, 24)
    assert (truth.video.frames, truth.video.duration) == (video.frames, pytest.approx(video.frames / 24))
    assert len(frames) == video.frames
    assert truth.settings.items() >= {k: v for k, v in asdict(MEDIUM).items() if not isinstance(v, tuple)}.items()
    assert [tuple(span) for span in truth.settings["dissolve_frames"]] == list(video.dissolves)
    assert [(shot.start_frame, shot.end_frame) for shot in truth.shots] == list(video.shot_ranges)
    lengths = [scene.end_shot - scene.start_shot for scene in truth.scenes]
    assert np.repeat(range(MEDIUM.scenes), lengths).tolist() == list(video.scene_of_shot)
    assert all(4 <= length <= 6 for length in lengths)
    assert [shot.score for shot in truth.shots] == [*map(float, np.diff(video.scene_of_shot)), 1.0]


def test_hard_cuts_are_where_the_truth_says(medium: tuple[Path, SyntheticVideo], frames: NDArray[np.float32]) -> None:
    video = medium[1]
    change = np.abs(np.diff(frames, axis=0)).mean((1, 2))  # change[i]: from frame i to frame i + 1
    middles = {(start + end) // 2 for start, end in video.dissolves}
    cuts = [start for start, _ in video.shot_ranges[1:]]
    assert middles <= set(cuts)
    at_cuts = np.array([cut - 1 for cut in cuts if cut not in middles])
    inside = np.delete(change, at_cuts)
    assert np.min(change[at_cuts]) > 1.5 * np.max(inside)
    assert np.median(change[at_cuts]) > 20 * np.median(inside)
    assert np.median(inside) > 0  # the image moves


def test_a_dissolve_mixes_two_scenes_around_the_cut(
    medium: tuple[Path, SyntheticVideo], frames: NDArray[np.float32]
) -> None:
    video = medium[1]
    assert len(video.dissolves) == MEDIUM.dissolves
    for start, end in video.dissolves:
        after = next(shot for shot in video.shots if shot.start_frame == (start + end) // 2)
        assert video.shots[video.shots.index(after) - 1].scene == after.scene - 1
        assert 12 <= end - start <= 24
        before, behind, middle = frames[start - 1], frames[end], frames[(start + end) // 2]
        assert np.abs(middle - (before + behind) / 2).mean() < 0.5 * np.abs(before - behind).mean()
        assert (
            np.abs(np.diff(frames[start - 1 : end + 1], axis=0)).mean((1, 2)).max() < np.abs(before - behind).mean() / 3
        )


def test_keyframes_are_frames_of_the_video(medium: tuple[Path, SyntheticVideo]) -> None:
    path, video = medium
    keyframes = render_keyframes(video, per_shot=3)
    assert keyframes.shape == (len(video.shots), 3, 108, 192, 3)
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    for (start, end), images in zip(video.shot_ranges, keyframes, strict=True):
        for k, image in enumerate(images):
            frame = frames[start + (end - start) * (k + 1) // 4]
            assert np.abs(frame.astype(int) - image).mean() < 8  # what the encoder loses


def test_impossible_settings_are_refused_by_name() -> None:
    for name, value in {"seed": -1, "scenes": 0, "width": 65, "height": 8, "dissolves": -1}.items():
        refusal(lambda name=name, value=value: replace(TINY, **{name: value}), name, error=ValueError)


def test_unwritable_paths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.mp4").mkdir()
    for path in (tmp_path / "file" / "video.mp4", tmp_path / "folder.mp4", tmp_path / "video.mkv", tmp_path / "video"):
        refusal(lambda path=path: write_video(path, TINY), path, error=BasslError)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder.mp4"}


def test_a_seed_gives_the_same_video_in_a_program_and_a_function(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipelines.datasets.synthetic", str(tmp_path / "video.mp4"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    small = ("--seed", "3", "--scenes", "3", "--width", "64", "--height", "48", "--frame-rate", "8")
    done = run(*small, "--shot-seconds", "0.5", "1")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    assert "3 scenes" in done.stdout
    same = write_video(tmp_path / "same" / "video.mp4", TINY)
    assert plan_video(replace(TINY, seed=4)).shots != same.shots
    for name in ("video.mp4", "video.scenes.json"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "same" / name).read_bytes()
    failed = run("--scenes", "0")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "scenes" in failed.stderr.splitlines()[-1]
