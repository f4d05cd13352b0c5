"""The library's one call: a film in, its scenes out."""

import json
import subprocess
import sys
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import pipelines
from pipelines import BasslError, PredictSettings, Scene, SceneList, Shot, predict
from pipelines.datasets.synthetic import SyntheticFilm
from pipelines.errors import DatasetError, StoreError, VideoError
from pipelines.models.relational import DEFAULT_MODEL
from pipelines.video.shots import FilmedShot
from tests import films
from tests.conftest import CUTS

SCHEMA = json.loads((Path(pipelines.__file__).parent / "scenes.schema.json").read_text())

needs_model = pytest.mark.skipif(not DEFAULT_MODEL.exists(), reason="the model in the package has not been made yet")


@pytest.fixture(scope="module")
def result(film: Path, model: Path) -> SceneList:
    return predict(film, PredictSettings(model=model, device="cpu"))


def test_the_result_is_typed(result: SceneList) -> None:
    assert isinstance(result, SceneList)
    assert all(isinstance(shot, Shot) for shot in result.shots)
    assert all(isinstance(scene, Scene) for scene in result.scenes)
    assert type(result.shots[0].score) is float
    assert all(0 <= shot.score <= 1 for shot in result.shots)


def test_shots_and_scenes_cover_the_film(result: SceneList) -> None:
    assert [shot.start_frame for shot in result.shots] == [0, *CUTS]
    assert result.scenes[0].start_shot == result.scenes[0].start_frame == result.scenes[0].start == 0
    for earlier, later in pairwise(result.scenes):
        assert (earlier.end_shot, earlier.end_frame, earlier.end) == (
            later.start_shot,
            later.start_frame,
            later.start,
        )
    last = result.scenes[-1]
    assert (last.end_shot, last.end_frame, last.end) == (4, result.video.frames, result.video.duration)


def test_the_result_is_the_same_again(film: Path, model: Path, result: SceneList) -> None:
    assert predict(str(film), PredictSettings(model=model, device="cpu")) == result


def test_what_is_saved_is_valid_and_complete(result: SceneList, tmp_path: Path) -> None:
    result.save(tmp_path / "scenes.json")
    saved = json.loads((tmp_path / "scenes.json").read_text())
    jsonschema.validate(saved, SCHEMA)
    assert saved["video"] == asdict(result.video)
    assert [Scene(**scene) for scene in saved["scenes"]] == list(result.scenes)
    assert [Shot(**shot) for shot in saved["shots"]] == list(result.shots)


def test_all_that_made_the_result_is_recorded(result: SceneList, model: Path) -> None:
    expected = asdict(PredictSettings(device="cpu")) | {"model": str(model), "bassl": pipelines.__version__}
    assert expected.items() <= result.settings.items()
    assert result.settings["precision"] in ("float32", "bfloat16")


def test_a_list_of_shots_is_recorded_in_place_of_the_detector(film: Path, model: Path, tmp_path: Path) -> None:
    listed = tmp_path / "shots.txt"
    listed.write_text("40\n80\n")
    result = predict(film, PredictSettings(model=model, shots=listed))
    assert [shot.start_frame for shot in result.shots] == [0, 40, 80]
    assert (result.settings["shots"], result.settings["detector"]) == (str(listed), None)


@pytest.mark.parametrize("scenes", [1, 3])
def test_exactly_so_many_scenes_can_be_asked_for(film: Path, model: Path, scenes: int) -> None:
    result = predict(film, PredictSettings(model=model, scenes=scenes))
    assert len(result.scenes) == scenes
    ends = {scene.end_shot - 1 for scene in result.scenes[:-1]}
    others = {shot.index for shot in result.shots[:-1]} - ends
    assert all(result.shots[a].score >= result.shots[b].score for a in ends for b in others)


def test_threshold_and_least_length_decide_over_the_same_scores(film: Path, model: Path, result: SceneList) -> None:
    scores = [shot.score for shot in result.shots[:-1]]
    low = predict(film, PredictSettings(model=model, device="cpu", threshold=min(scores) - 1e-6))
    assert low.shots == result.shots
    assert len(low.scenes) == 4
    assert len(predict(film, PredictSettings(model=model, threshold=max(scores) + 1e-6)).scenes) == 1
    long = predict(film, PredictSettings(model=model, threshold=min(scores) - 1e-6, min_scene=2.0))
    assert len(long.scenes) == 2
    assert all(scene.end - scene.start >= 2.0 for scene in long.scenes)


def test_nothing_is_printed(film: Path, model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    predict(film, PredictSettings(model=model))
    assert tuple(capfd.readouterr()) == ("", "")


def test_the_caller_is_told_of_progress_and_given_each_shot(film: Path, model: Path) -> None:
    told: list[tuple[str, float, float | None]] = []
    shots: list[FilmedShot] = []
    predict(film, PredictSettings(model=model), lambda *state: told.append(state), shots.append)
    assert [stage for stage, *_ in told][-1] == "scoring"
    assert ("reading", pytest.approx(5.0), pytest.approx(5.0)) in told
    assert [shot.start_frame for shot in shots] == [0, *CUTS]
    assert films.number_of(shots[1].keyframes[1]) == 45


def test_damage_is_warned_of_and_what_could_be_read_is_divided(model: Path, tmp_path: Path) -> None:
    whole = films.write_film(tmp_path / "whole.mkv", films.pictures(120, CUTS))
    result = predict(films.truncated(whole, tmp_path / "cut.mkv", 0.6), PredictSettings(model=model))
    assert any("ends early" in warning for warning in result.warnings)
    assert result.scenes[-1].end == result.video.duration < 4
    jsonschema.validate(json.loads(json.dumps(result.to_dict())), SCHEMA)


def test_what_cannot_be_used_is_an_error_of_its_kind(film: Path, model: Path, tmp_path: Path) -> None:
    no_model = tmp_path / "model.safetensors"
    no_model.write_text("no model")
    for path, settings, error in (
        (tmp_path / "gone.mp4", PredictSettings(model=model), VideoError),
        (film, PredictSettings(model=no_model), StoreError),
        (film, PredictSettings(model=model, shots=tmp_path / "gone.txt"), DatasetError),
        (film, PredictSettings(model=model, encoder="vgg"), BasslError),
        (film, PredictSettings(model=model, detector="sharp"), BasslError),
        (film, PredictSettings(model=model, device="quantum"), BasslError),
        (film, PredictSettings(model=model, threshold=1.5), BasslError),
        (film, PredictSettings(model=model, scenes=5), BasslError),
        (film, PredictSettings(model=model, scenes=4, min_scene=2.0), BasslError),
    ):
        with pytest.raises(error) as caught:
            predict(path, settings)
        assert "\n" not in str(caught.value)


@needs_model
def test_the_model_in_the_package_gives_ends_of_scenes_higher_scores(
    synthetic_film: tuple[Path, SyntheticFilm],
) -> None:
    path, film = synthetic_film
    shots = predict(path).shots[:-1]
    true = [shot.start_frame for before, shot in pairwise(film.shots) if before.scene != shot.scene]
    ends = {shot.index for shot in shots if min(abs(shot.end_frame - frame) for frame in true) < 12}
    inside = [shot.score for shot in shots if shot.index not in ends]
    assert np.mean([shots[i].score for i in ends]) > np.mean(inside) + 0.05


@needs_model
@pytest.mark.parametrize("frames", [1, 2])
def test_a_film_of_a_frame_or_two_is_one_certain_scene(tmp_path: Path, frames: int) -> None:
    result = predict(films.write_film(tmp_path / "short.mp4", films.pictures(frames)))
    (scene,) = result.scenes
    assert (scene.start_frame, scene.end_frame, scene.confidence) == (0, frames, 1.0)


def test_importing_the_library_loads_nothing_heavy() -> None:
    code = "import sys, pipelines; print({'torch', 'av', 'cv2', 'scenedetect'} & sys.modules.keys())"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[1], check=True
    )
    assert run.stdout == "set()\n"
