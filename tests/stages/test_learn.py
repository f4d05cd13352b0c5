"""`learn`: a model of one's own from corrected scenes, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.datasets.synthetic import SyntheticVideoSettings, write_video
from pipelines.errors import BasslError
from pipelines.models.opening import open_model
from pipelines.outputs.exports import FORMATS, export
from pipelines.progress import VideoProgress
from pipelines.results.finding import beside
from pipelines.scenes import group_shots
from pipelines.stages.learn import learn
from pipelines.stages.models import list_models
from pipelines.stages.predict import predict
from tests.small_stores import refusal

BUILT_IN = open_model().boundary_model()


@pytest.fixture(scope="session")
def labeled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of three videos with their true scenes."""
    folder = tmp_path_factory.mktemp("labeled")
    for seed in range(3):
        settings = SyntheticVideoSettings(
            seed=seed, scenes=4, shots_per_scene=(3, 6), shot_seconds=(0.7, 1.2), width=96, height=54, dissolves=0
        )
        write_video(folder / f"video{seed}.mp4", settings)
    return folder


@pytest.fixture
def place(labeled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the folder, which is the current one."""
    shutil.copytree(labeled, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(place: Path) -> list[Path]:
    return sorted(place.glob("*.scenes.json"))


def test_the_model_is_a_file_like_the_built_in_one_that_says_what_it_learned_from(place: Path) -> None:
    result = learn([place / "video0.mp4", *files(place)[1:]], output="own/my.safetensors")
    model = open_model(result.output).boundary_model()
    assert (model.crn, model.encoder, model.calibration.slope) == ("relational", None, BUILT_IN.calibration.slope)
    unchanged = np.array_equal(model.network.weight, BUILT_IN.network.weight)
    assert unchanged == (result.strength is None)
    learned_from = {"videos": 3, "shots": sum(video.shots for video in result.videos), "scene_ends": 9}
    assert model.training["learned_from"] == learned_from
    assert model.training["started_from"] == open_model().digest
    assert model.training["measured"] == result.measured
    _, listed = list_models("own")
    assert (listed.stage, listed.scores) == ("learned", result.measured)
    assert predict(place / "video1.mp4", model=result.output).settings["model_id"] == open_model(result.output).digest


def test_a_prediction_is_learned_from_once_a_cut_or_a_name_was_corrected(place: Path) -> None:
    file = place / "video0.scenes.json"
    predicted = predict(place / "video0.mp4", shots=file, scenes=3)
    predicted.save(file)
    refusal(lambda: learn(file), "was not corrected", error=BasslError)
    replace(predicted, scenes=group_shots(predicted.shots, [1, len(predicted.shots) - 1])).save(file)
    result = learn(file)  # one video adapts the threshold, without a measure
    assert (result.scene_ends, result.measured, result.strength) == (1, {}, None)
    assert (result.output, result.videos[0].status) == (Path("my.safetensors"), "done")
    replace(predicted, scenes=(replace(predicted[0], name="opening"), *predicted[1:])).save(file)
    assert learn(file, overwrite=True).scene_ends == 2


@pytest.mark.parametrize("form", ["youtube", "edl"])
def test_labels_may_be_in_another_file_as_exports_write_it(place: Path, form: str) -> None:
    (place / "labels").mkdir()
    for file in files(place)[:2]:
        true = read_scene_list(file)
        export(true, place / "labels" / beside(file, FORMATS[form].extension).name, form)
        shots = tuple(replace(shot, score=0.1) for shot in true.shots)
        predicted = {"settings": {"threshold": 0.5}, "scenes": group_shots(shots, [0, len(shots) - 1])}
        replace(true, shots=shots, **predicted).save(file)
    result = learn(files(place)[:2], labels="labels")
    assert result.scene_ends == 6
    assert learn(files(place)[0], labels=next((place / "labels").iterdir()), output="one.safetensors").scene_ends == 3
    refusal(lambda: learn(files(place), labels=files(place)[2], output="a.safetensors"), "one video", error=BasslError)
    (failed,) = [one for one in learn(files(place), labels="labels", output="b.safetensors").videos if one.error]
    assert failed.error.endswith("video2.scenes.json: labels: has no labels of video2")


def one_scene(place: Path) -> None:
    listed = read_scene_list(place / "video0.scenes.json")
    replace(listed, scenes=group_shots(listed.shots, [len(listed.shots) - 1])).save(place / "video0.scenes.json")


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "one scene": (one_scene, "has one scene"),
    "no JSON": (lambda place: (place / "video0.scenes.json").write_text("{"), "video0.scenes.json"),
    "no video": (lambda place: (place / "video0.mp4").unlink(), "was not found, or was changed"),
    "a video that is no video": (lambda place: (place / "video0.mp4").write_bytes(b"no video"), "video0.mp4"),
    "the same video again": (
        lambda place: [shutil.copy(place / f"video1.{end}", place / f"video0.{end}") for end in ("mp4", "scenes.json")],
        "has the scenes of the same video as",
    ),
}


@pytest.mark.parametrize(("spoil", "words"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_video_fails_alone(place: Path, spoil: Callable[[Path], object], words: str) -> None:
    spoil(place)
    results = learn([*files(place)[1:], place / "video0.scenes.json"]).videos
    assert [result.status for result in results] == ["done", "done", "failed"]
    assert words in results[2].error
    assert "video0" in results[2].error
    assert open_model("my.safetensors").header["training"]["learned_from"]["videos"] == 2


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("video0.scenes.json", "the name of a model file ends in .safetensors"),
        ("old.safetensors", "old.safetensors: already exists; name another file with `output`"),
    ],
)
def test_an_unusable_output_is_refused_before_a_video_is_read(place: Path, output: str, words: str) -> None:
    (place / "old.safetensors").write_bytes(b"old")
    states: list[VideoProgress] = []
    errors = (BasslError, ValueError)
    refusal(lambda: learn(place / "video0.mp4", output=output, progress=states.append), words, error=errors)
    assert states == []
    assert (place / "old.safetensors").read_bytes() == b"old"


def test_a_model_of_no_usable_video_is_not_written(place: Path) -> None:
    one_scene(place)
    refusal(lambda: learn([place / "video0.mp4"]), "video0.scenes.json: has one scene", error=BasslError)
    refusal(lambda: learn([]), "no videos to learn from", error=BasslError)
    assert not (place / "my.safetensors").exists()
