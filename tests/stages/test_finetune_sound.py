"""Fine-tuning with sound: from videos to scenes, where only the sound marks scene ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.errors import BasslError
from pipelines.evaluation.metrics import average_precision
from pipelines.models.boundary import load_boundary_model, save_boundary_model
from pipelines.models.networks.torch_networks import one_thread
from pipelines.models.sound import silent, with_sound
from pipelines.options import with_options
from pipelines.stages.build_index import build_index
from pipelines.stages.extract_keyframes import extract_keyframes
from pipelines.stages.extract_sound import extract_sound
from pipelines.stages.finetune import FinetuneSettings, finetune
from pipelines.stages.models import list_models
from pipelines.stages.predict import PredictSettings
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.score import ScoreSettings, score
from pipelines.video import sound
from tests import videos
from tests.small_stores import put_features, refusal
from tests.training_runs import finetuning

RATE, SHOT, SHOTS, TONES = 10, 10, 24, 16000  # frames per second, frames of a shot, shots of a video, samples a second
ENDS = {
    "a": (2, 6, 9, 14, 18, 23),
    "b": (3, 5, 10, 13, 19, 23),
    "c": (4, 7, 12, 15, 20, 23),
    "d": (1, 6, 11, 16, 19, 23),
    "e": (1, 4, 8, 14, 17, 21, 23),
    "f": (3, 7, 11, 15, 20, 23),
}
SPLITS = {"train": ["a", "b", "e", "f"], "val": ["c"], "test": ["d"]}


def write_video(path: Path, ends: tuple[int, ...]) -> None:
    """Shots of random texture; the last shot of each scene sounds high, and the others low."""
    cuts = range(SHOT, SHOT * SHOTS, SHOT)
    shown = videos.images(SHOT * SHOTS, cuts, 64, 48, seed=ord(path.stem), numbered=False)
    seconds = np.arange(SHOTS * TONES * SHOT // RATE) / TONES
    pitch = np.where(np.isin((seconds * RATE / SHOT).astype(int), ends), 3000, 300)
    samples = (8000 * np.sin(2 * np.pi * np.cumsum(pitch) / TONES)).astype(np.int16)
    videos.write_video(path, shown, RATE, sound=videos.Sound(samples, TONES, "pcm_s16le", "mono"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos with their keyframes, index and sound."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "videos").mkdir()
    (folder / "labels").mkdir()
    for name, ends in ENDS.items():
        write_video(folder / "videos" / f"{name}.mkv", ends)
        starts = [0, *(end + 1 for end in ends)]
        rows = [f"{start},{end + 1}" for start, end in zip(starts, ends, strict=False)]
        (folder / "labels" / f"{name}.csv").write_text("\n".join(["start,end", *rows]))
    (folder / "splits.json").write_text(json.dumps(SPLITS))
    extract_keyframes([folder / "videos"], output=folder / "keyframes", keyframes=1, jobs=1)
    places = {"output": folder / "index.h5", "labels": (folder / "labels",), "split": folder / "splits.json"}
    build_index([folder / "keyframes"], **places)
    extract_sound([folder / "videos"], index=folder / "index.h5", output=folder / "sound", jobs=1)
    return folder


@pytest.fixture(scope="module")
def settings(library: Path) -> FinetuneSettings:
    stores = {"sound": library / "sound", "feature_folder": library / "features"}
    sizes = {"neighbors": 1, "epochs": 20, "batch": 12, "rate": 2e-3, "dropout": None}
    # One video of 24 shots is too few to select an epoch on.
    return finetuning(library / "index.h5", library / "runs" / "heard", select="last", **stores, **sizes)


@pytest.fixture(scope="module")
def run(settings: FinetuneSettings) -> Path:
    with one_thread():
        finetune(settings)
    return settings.run.output


def scoring_with(settings: FinetuneSettings, sound: Path | None) -> ScoreSettings:
    features = settings.feature_folder
    return with_options(ScoreSettings, index=settings.data.index, features=features, sound=sound, device="cpu")


def test_a_model_with_sound_finds_scenes_that_only_sound_marks(run: Path, settings: FinetuneSettings) -> None:
    scoring = scoring_with(settings, settings.sound)
    heard = score(run, settings=scoring).measures["ap"].pooled
    with one_thread():
        finetune(settings, sound=None, output=run.parent / "deaf")
    deaf = score(run.parent / "deaf", settings=scoring).measures["ap"].pooled
    assert heard is not None
    assert deaf is not None
    assert heard > 0.95
    assert deaf < 0.7


def test_predict_reads_the_sound_of_the_video(run: Path, library: Path) -> None:
    """For a video that was not used in training, with the same scores as `score`."""
    model = SceneModel(with_options(PredictSettings, model=run, device="cpu"))
    found = model.predict(library / "videos" / "d.mkv")
    labels = np.isin(np.arange(SHOTS), ENDS["d"]).astype(np.uint8)
    assert len(found.shots) == SHOTS
    assert average_precision(labels, np.array([shot.score for shot in found.shots])) > 0.95
    assert found.warnings == ()


def test_a_video_without_sound_counts_as_silent_with_a_warning(run: Path, tmp_path: Path) -> None:
    cuts = range(SHOT, 4 * SHOT, SHOT)
    video = videos.write_video(tmp_path / "mute.mp4", videos.images(4 * SHOT, cuts, 64, 48, numbered=False), rate=RATE)
    found = SceneModel(with_options(PredictSettings, model=run, device="cpu")).predict(video)
    assert len(found.shots) == 4
    assert found.warnings == (f"{video}: has no sound, which its model reads; its shots count as silent",)


def test_videos_missing_in_the_sound_store_count_as_silent_and_other_shots_are_refused(
    run: Path, settings: FinetuneSettings, tmp_path: Path
) -> None:
    scoring = scoring_with(settings, tmp_path / "some")
    tuning = with_options(settings, sound=scoring.sound, output=tmp_path / "run")
    refusal(lambda: score(run, settings=scoring), scoring.sound, "no such folder of sound")
    put_features(scoring.sound, sound.SOUND, {"other": silent(3)}, {"other": 1})
    refusal(lambda: finetune(tuning), "no sound of the videos", error=BasslError)
    mute = {name: silent(SHOTS) for name in "abc"}
    put_features(scoring.sound, sound.SOUND, mute, dict.fromkeys(mute, 1))
    assert any(
        f"1 of 1 videos have no sound in {scoring.sound} and count as silent: d" in note
        for note in score(run, settings=scoring).notes
    )
    refusal(lambda: finetune(tuning), "other shots")
    put_features(scoring.sound, "made up", {"d": silent(SHOTS)}, {"d": 1})
    refusal(lambda: score(run, settings=scoring), "has features of made up, not of log-mel-64")


def test_the_model_header_records_that_it_reads_sound(run: Path, tmp_path: Path) -> None:
    model = load_boundary_model(run / "model.safetensors")
    assert model.sound == "log-mel-64"
    assert model.width == 1280 + sound.WIDTH
    assert [each.encoder.endswith(" and sound") for each in list_models(run)[1:]] == [True]
    save_boundary_model(tmp_path / "other.safetensors", replace(model, sound="another"))
    refusal(lambda: SceneModel(PredictSettings(model=tmp_path / "other.safetensors")).load(), "its sound is another")


def test_sound_features_are_zero_for_silence_and_about_one_for_a_full_scale_tone() -> None:
    content: NDArray[np.float32] = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(with_sound(content, silent(2)), np.hstack([content, np.zeros((2, sound.WIDTH))]))
    tone = sound.log_mel(np.sin(2 * np.pi * 440 * np.arange(sound.RATE) / sound.RATE))
    heard = with_sound(content[:1], np.concatenate([tone.mean(axis=0), tone.std(axis=0)])[None])
    assert 0.9 < heard[0, 3:].max() < 1.4


def test_a_relational_network_refuses_sound() -> None:
    with pytest.raises(ValueError, match="sound goes beside stored features"):
        with_options(FinetuneSettings, sound=Path("sound"), crn="relational")
