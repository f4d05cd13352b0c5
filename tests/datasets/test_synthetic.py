"""The video generator: a video matches its truth, and finding its scenes is a real but solvable task."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import jsonschema
import numpy as np
import pytest
from numpy.typing import NDArray

import pipelines
from pipelines.datasets import synthetic
from pipelines.datasets.synthetic import (
    SyntheticVideo,
    SyntheticVideoSettings,
    plan_video,
    render_keyframes,
    write_video,
)
from pipelines.errors import BasslError
from tests.small_stores import refusal

TINY = SyntheticVideoSettings(seed=3, scenes=3, shot_seconds=(0.5, 1.0), frame_rate=8, width=64, height=48)
MEDIUM = SyntheticVideoSettings(seed=1, scenes=6, shots_per_scene=(4, 8), width=192, height=108)


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


def colors(keyframes: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Root of the coarse color histogram of every shot; rows have length one."""
    bins = (keyframes // 64).reshape(len(keyframes), -1, 3) @ (16, 4, 1)
    return np.sqrt([np.bincount(row, minlength=64) / len(row) for row in bins])


def test_a_seed_gives_the_same_video_in_any_process(tmp_path: Path) -> None:
    script = "import sys; from pipelines.datasets.synthetic import *; write_video(sys.argv[1], {TINY!r})"
    for name in ("one", "two"):
        path = tmp_path / name / "video.mp4"
        subprocess.run([sys.executable, "-c", script.format(TINY=TINY), path], check=True)
    for name in ("video.mp4", "video.scenes.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_another_seed_gives_another_video() -> None:
    videos = [plan_video(replace(TINY, seed=seed, shots_per_scene=(4, 4))) for seed in range(4)]
    assert len({video.shots for video in videos}) == 4
    images = [render_keyframes(video, per_shot=1) for video in videos]
    for other in images[1:]:
        assert np.abs(images[0].astype(int) - other).mean() > 20


def test_the_truth_covers_the_video_without_gap(
    medium: tuple[Path, SyntheticVideo], frames: NDArray[np.float32]
) -> None:
    video = medium[1]
    assert video.shot_ranges[0][0] == 0
    assert all(end == start for (_, end), (start, _) in pairwise(video.shot_ranges))
    assert len(frames) == video.frames
    assert sorted(set(video.scene_of_shot)) == list(range(MEDIUM.scenes))
    assert list(video.scene_of_shot) == sorted(video.scene_of_shot)
    for scene in range(MEDIUM.scenes):
        assert 4 <= video.scene_of_shot.count(scene) <= 8
    for start, end in video.shot_ranges:
        assert 1.47 < (end - start) / video.frame_rate < 6.03


def test_the_written_scenes_json_equals_the_plan(medium: tuple[Path, SyntheticVideo]) -> None:
    path, video = medium
    truth = json.loads(path.with_name("video.scenes.json").read_text())
    jsonschema.validate(truth, json.loads(Path(pipelines.__file__).with_name("scenes.schema.json").read_text()))
    assert (truth["schema"], truth["version"]) == ("bassl.scenes", 1)
    assert truth["video"] == {
        "path": "video.mp4", "width": 192, "height": 108, "frames": video.frames, "frame_rate": 24.0,
        "duration": pytest.approx(video.frames / 24),
    }  # fmt: skip
    assert truth["settings"].items() >= {k: v for k, v in asdict(MEDIUM).items() if not isinstance(v, tuple)}.items()
    assert [tuple(span) for span in truth["settings"]["dissolve_frames"]] == list(video.dissolves)
    assert [(shot["start_frame"], shot["end_frame"]) for shot in truth["shots"]] == list(video.shot_ranges)
    ends = [i for i in range(len(video.shots)) if video.scene_of_shot[i : i + 2] != (video.scene_of_shot[i],) * 2]
    assert [shot["index"] for shot in truth["shots"] if shot["score"] == 1.0] == ends
    assert {shot["score"] for shot in truth["shots"]} == {0.0, 1.0}
    assert [scene["end_shot"] - 1 for scene in truth["scenes"]] == ends
    assert truth["scenes"][0]["start_timecode"] == "00:00:00.000"
    assert truth["scenes"][-1]["end"] == truth["video"]["duration"]
    for scene, following in pairwise(truth["scenes"]):
        assert scene["end_frame"] == following["start_frame"] == truth["shots"][scene["end_shot"]]["start_frame"]
        assert scene["end_shot"] == following["start_shot"]
        assert scene["end_timecode"] == following["start_timecode"]
        assert scene["confidence"] == 1.0


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
        assert end - start == 24
        before, behind, middle = frames[start - 1], frames[end], frames[(start + end) // 2]
        assert np.abs(middle - (before + behind) / 2).mean() < 0.5 * np.abs(before - behind).mean()
        assert (
            np.abs(np.diff(frames[start - 1 : end + 1], axis=0)).mean((1, 2)).max() < np.abs(before - behind).mean() / 3
        )


def test_shots_of_one_scene_are_more_alike_than_shots_of_different_sets() -> None:
    for seed in range(4):
        video = plan_video(SyntheticVideoSettings(seed=seed, width=96, height=54))
        likeness = colors(render_keyframes(video))
        likeness = likeness @ likeness.T
        scenes = np.array(video.scene_of_shot)
        sets = np.array(video.sets)[scenes]
        same_scene = (scenes[:, None] == scenes) & ~np.eye(len(scenes), dtype=bool)
        assert likeness[same_scene].mean() > likeness[sets[:, None] != sets].mean() + 0.1
        # And yet a change of shot alone does not tell: many cuts inside scenes change more than some between them.
        neighbors = np.diagonal(likeness, 1)
        changes = scenes[1:] != scenes[:-1]
        assert neighbors[~changes].min() < np.median(neighbors[changes])


def test_shot_and_reverse_shot_alternate() -> None:
    video = plan_video(replace(MEDIUM, seed=2, scenes=12))
    images = render_keyframes(video, per_shot=1)[:, 0].astype(np.float32)
    differences = []
    for i in range(len(video.shots) - 2):
        first, second, third = video.shots[i : i + 3]
        kinds = (first.kind, second.kind, third.kind)
        if first.scene == third.scene and kinds == ("close",) * 3 and first.which == third.which != second.which:
            again, reverse = (np.abs(images[i] - images[i + k]).mean() for k in (2, 1))
            differences.append((again, reverse))
    assert len(differences) >= 5
    assert all(again < 0.6 * reverse for again, reverse in differences)


def test_sets_and_characters_recur_in_later_scenes_and_set_ups_change() -> None:
    for seed in range(10):
        video = plan_video(SyntheticVideoSettings(seed=seed))
        assert all(place != following for place, following in pairwise(video.sets))
        assert 6 <= len(set(video.sets)) < len(video.sets)
        places: dict[int, set[int]] = {}
        for shot in video.shots:
            for actor in shot.actors:
                places.setdefault(actor.character, set()).add(video.sets[shot.scene])
        assert sum(len(sets) > 1 for sets in places.values()) >= 2
        assert {"wide", "close", "insert"} <= {shot.kind for shot in video.shots}
        set_ups = [(shot.scene, shot.kind, shot.which) for shot in video.shots]
        assert all(set_up != following for set_up, following in pairwise(set_ups))


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


@pytest.mark.parametrize(
    "changes",
    [
        *({"width": w, "height": h, "dissolves": 9} for w, h in ((16, 16), (200, 40), (54, 96))),
        {"scenes": 1, "shots_per_scene": (1, 1)},
    ],
)
def test_any_size_and_a_single_shot_can_be_written(tmp_path: Path, changes: dict[str, Any]) -> None:
    settings = replace(TINY, **changes)
    video = write_video(tmp_path / "video.mp4", settings)
    assert decode(tmp_path / "video.mp4").shape == (video.frames, settings.height, settings.width)
    assert len(video.dissolves) == min(settings.dissolves, settings.scenes - 1)
    assert len(json.loads((tmp_path / "video.scenes.json").read_text())["scenes"]) == settings.scenes


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": -1},
        {"scenes": 0},
        {"width": 65},
        {"height": 8},
        {"dissolves": -1},
    ],
)
def test_impossible_settings_are_refused_by_name(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        replace(TINY, **changes)  # type: ignore[arg-type]


def test_unwritable_paths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.mp4").mkdir()
    for path in (tmp_path / "file" / "video.mp4", tmp_path / "folder.mp4", tmp_path / "video.mkv", tmp_path / "video"):
        refusal(lambda path=path: write_video(path, TINY), path, error=BasslError)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder.mp4"}


def test_an_interrupted_video_leaves_no_files_and_keeps_existing_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "video.mp4").write_text("an earlier video")

    def interrupt(video: SyntheticVideo, path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(synthetic, "_truth", interrupt)  # after the frames
    with pytest.raises(KeyboardInterrupt):
        write_video(tmp_path / "video.mp4", TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["video.mp4"]
    assert (tmp_path / "video.mp4").read_text() == "an earlier video"


def test_the_generator_runs_as_a_program(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipelines.datasets.synthetic", str(tmp_path / "video.mp4"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    small = ("--seed", "3", "--scenes", "3", "--width", "64", "--height", "48", "--frame-rate", "8")
    done = run(*small, "--shot-seconds", "0.5", "1")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    assert "3 scenes" in done.stdout
    written = (tmp_path / "video.mp4").read_bytes()
    write_video(tmp_path / "same.mp4", TINY)
    assert written == (tmp_path / "same.mp4").read_bytes()
    for wrong in (("--scenes", "0"), ("--scenes", "many")):
        failed = run(*wrong)
        assert (failed.returncode, failed.stdout) == (2, "")
        assert "scenes" in failed.stderr.splitlines()[-1]
