import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from pipelines.datasets.sources import read_shot_features
from pipelines.errors import BasslError
from pipelines.evaluation.bootstrap import AT_SOFTMAX, METRICS, Measure
from pipelines.evaluation.metrics import average_precision, coverage_overflow, knn_precision, scene_ids, video_miou
from pipelines.models import boundary
from pipelines.models.bassl import BasslSettings, BasslWeights, save_bassl_model
from pipelines.models.boundary import BoundaryModel, save_boundary_model
from pipelines.models.calibration import Calibration
from pipelines.models.encoders import Preparation
from pipelines.models.encoders.torch_encoders import torch_encoder, trainable_encoder
from pipelines.models.networks import MLPSettings
from pipelines.models.networks.torch_networks import TransformerBoundary, build_network
from pipelines.models.opening import open_model
from pipelines.options import with_options
from pipelines.outputs.tables import TextTable, check_table, comma_separated, latex, markdown
from pipelines.stages.build_index import build_index
from pipelines.stages.encode import encode_shots
from pipelines.stages.finetune import FinetuneSettings, finetune
from pipelines.stages.score import ScoreResult, SeedSpread, save_table, score, seed_spreads, table_of
from pipelines.stages.settings import IndexSettings, ScoreSettings
from tests.datasets.annotation_files import put_chapters
from tests.datasets.movienet_files import put_keyframes, put_labels
from tests.scored_things import (
    SHAPE,
    WIDTH,
    model,
    plain,
    put_csv,
    put_index,
    put_pretrained,
    put_run,
    put_scenes,
    scene_list,
)
from tests.small_stores import put_store, refusal

QUICK = with_options(ScoreSettings, resamples=20)
SMALL: dict[str, Any] = {"init": "none", "crn": "mlp", "width": 8, "epochs": 1, "batch": 4, "seeds": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scored")
    put_index(folder)
    put_run(folder / "run", seeds=(3, 5))
    put_pretrained(folder / "pretrained.safetensors")
    return folder


@pytest.fixture
def settings(home: Path) -> ScoreSettings:
    return with_options(QUICK, index=home / "index.h5", features=home / "nowhere")


def put_labeled(folder: Path, images: int = 3) -> Path:
    """An index of two labeled videos with keyframes of four shots each."""
    for name in ("a", "b"):
        put_store(folder / "keyframes" / f"{name}.h5", shots=4, images=images, seed=ord(name))
        put_csv(folder / "labels" / f"{name}.csv", 0, 4, 8)
    settings = with_options(IndexSettings, output=folder / "index.h5", labels=(folder / "labels",))
    return build_index([folder / "keyframes"], settings).index.path


@pytest.fixture(scope="module")
def labeled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put_labeled(tmp_path_factory.mktemp("labeled"))


@pytest.fixture
def on_labeled(labeled: Path, tmp_path: Path) -> ScoreSettings:
    return with_options(QUICK, index=labeled, split="all", features=tmp_path / "features", device="cpu")


def tiny_encoder() -> tuple[str, dict[str, torch.Tensor]]:
    """Name and weights of a small image network that is not trained."""
    torch.manual_seed(0)
    return "timm:test_resnet", trainable_encoder("timm:test_resnet", pretrained=False).network.state_dict()


# --- models ---------------------------------------------------------------------------------------------------------


def test_a_run_is_scored_on_a_split(home: Path, settings: ScoreSettings) -> None:
    result = score(home / "run", settings=with_options(settings, frame_rate=25.0))
    assert len(result.videos) == 3
    assert list(result.measures) == list(METRICS)
    scorer = open_model(home / "run").boundary_model()
    for video in result.videos:
        stored = read_shot_features(home / f"{video.video}.npz")
        assert video.scores.tolist() == scorer.score(stored.features, stored.seconds, stored.color).tolist()
        assert video.labels.tolist() == stored.scene_end.tolist()
        assert video.seconds is not None
        assert video.seconds.tolist() == (stored.shots / 25).tolist()
    assert result.threshold == 0.5
    labels, scores = (
        np.concatenate([getattr(video, name) for video in result.videos]) for name in ("labels", "scores")
    )
    mious = [video_miou(video.labels, video.scores >= 0.5, video.shots) for video in result.videos]
    assert result.measures["ap"].pooled == pytest.approx(average_precision(labels, scores))
    assert result.measures["miou"].videos == pytest.approx(np.mean(mious))
    assert result.problems == ()


def test_the_seeds_of_a_run_have_a_mean_and_a_deviation_and_videos_without_times_are_reported(
    home: Path, settings: ScoreSettings
) -> None:
    result = score(home / "run", settings=settings)
    assert result.measures["boundary_f1"].value is None
    (note,) = result.notes
    assert "3 of 3 videos have no times" in note
    assert "`frame_rate`" in note
    alone = {seed: score(home / "run" / f"seed-{seed}.safetensors", settings=settings) for seed in (3, 5)}
    for name, spread in result.seeds.items():
        values = [alone[seed].measures[name].value for seed in (3, 5)]
        assert list(spread.values.values()) == pytest.approx(values)
        assert spread.mean == pytest.approx(np.mean(values))  # type: ignore[arg-type]
        assert spread.deviation == pytest.approx(np.std(values, ddof=1))  # type: ignore[arg-type]
    assert {"ap", "miou", "sum"} <= set(result.seeds)
    assert result.measures["ap"].pooled == pytest.approx(alone[3].measures["ap"].pooled)
    assert alone[3].seeds == {}


def test_f1_and_miou_are_also_measured_at_the_softmax_of_the_network_itself(
    home: Path, settings: ScoreSettings, tmp_path: Path
) -> None:
    networks = {seed: replace(model(seed), calibration=Calibration(slope=0.5, offset=0.3 * seed)) for seed in (3, 5)}
    folder = tmp_path / "calibrated"
    folder.mkdir()
    for seed, network in networks.items():
        save_boundary_model(folder / f"seed-{seed}.safetensors", network)
    save_boundary_model(folder / "model.safetensors", networks[3])
    result = score(folder, settings=replace(settings, at=0.4))
    for seed, network in networks.items():
        save_boundary_model(tmp_path / "plain.safetensors", replace(network, calibration=Calibration()))
        uncalibrated = score(tmp_path / "plain.safetensors", settings=with_options(settings, threshold=0.4))
        for name, metric in AT_SOFTMAX.items():
            assert result.seeds[name].values[seed] == pytest.approx(uncalibrated.measures[metric].value)
    assert result.measures["f1_at_softmax"].value == result.seeds["f1_at_softmax"].values[3]
    assert result.measures["f1_at_softmax"].value != result.measures["f1"].value
    names = [row[0] for row in table_of(result).rows]
    assert {"F1, calibrated", "mIoU, calibrated", "F1 at softmax 0.4", "mIoU at softmax 0.4"} <= set(names)
    assert "f1_at_softmax" not in score(folder, settings=settings).measures


def test_a_metric_defined_for_one_seed_has_no_deviation() -> None:
    def ap(value: float | None) -> dict[str, Measure]:
        return {"ap": Measure(value, None, None, None), "f1": Measure(None, None, None, None)}

    assert seed_spreads({0: ap(None), 1: ap(0.25)}) == {"ap": SeedSpread({1: 0.25})}
    assert seed_spreads({0: ap(0.5), 1: ap(0.25)})["ap"].deviation == pytest.approx(0.125 * 2**0.5)


@pytest.mark.parametrize(("threshold", "recall"), [(1e-9, 1.0), (1 - 1e-9, 0.0)])
def test_the_threshold_decides_predicted_scene_ends_and_split_all_is_every_labeled_video(
    settings: ScoreSettings, threshold: float, recall: float
) -> None:
    result = score("default", settings=with_options(settings, threshold=threshold, split="all"))
    assert result.measures["recall"].pooled == recall
    assert 0 < (result.measures["ap"].pooled or 0) <= 1
    assert (result.seeds, len(result.videos)) == ({}, 5)


def test_a_pretrained_model_is_scored_by_its_pseudo_boundary_head(home: Path, settings: ScoreSettings) -> None:
    result = score(home / "pretrained.safetensors", settings=settings)
    for video in result.videos:  # the same weights as the run's, under the other name
        stored = read_shot_features(home / f"{video.video}.npz")
        assert video.scores.tolist() == model(0).score(stored.features, stored.seconds, stored.color).tolist()
    assert any("without fine-tuning" in note for note in result.notes)


def test_the_representation_is_measured_on_the_videos_of_the_split(home: Path, settings: ScoreSettings) -> None:
    result = score(home / "features" / f"npz-{WIDTH}d", settings=replace(settings, representation=True))
    videos = score(home / "run", settings=settings).videos
    stored = [read_shot_features(home / f"{video.video}.npz") for video in videos]
    of = np.repeat(np.arange(len(stored)), [len(of_one.features) for of_one in stored])
    scenes = scene_ids(np.concatenate([video.labels for video in videos]), of)
    expected = knn_precision(np.concatenate([of_one.features for of_one in stored]), scenes, of)
    assert result.representation is not None
    assert result.representation.knn == expected
    assert [one.length for one in result.representation.nmi] == [8, 16, 32]
    assert result.measures == {}
    both = score(home / "run", settings=replace(settings, representation=True))
    assert both.representation is not None
    assert both.representation.knn == expected
    assert both.measures
    assert plain(json.dumps(both.to_dict()))


def test_missing_features_are_computed(on_labeled: ScoreSettings, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    result = score("default", settings=on_labeled, progress=lambda *state: told.append(state))
    assert [video.video for video in result.videos] == ["a", "b"]
    assert ("encoding", 8, 8) in told
    assert told[-1] == ("scoring", 2, 2)
    assert result.measures["boundary_f1"].pooled is not None
    (store,) = (tmp_path / "features").glob("efficientnet_lite0-*/a.h5")
    before = store.stat().st_mtime_ns
    assert score("default", settings=on_labeled).measures == result.measures
    assert store.stat().st_mtime_ns == before


def test_missing_features_are_computed_with_the_preparation_of_the_model(
    labeled: Path, on_labeled: ScoreSettings, tmp_path: Path
) -> None:
    store = encode_shots(index=labeled, output=tmp_path / "features", preparation="center", device="cpu")
    tuning = with_options(FinetuneSettings, index=labeled, features=(store,), output=tmp_path / "run", **SMALL)
    finetune(tuning)
    before = score(tmp_path / "run", settings=on_labeled)
    shutil.rmtree(store)
    assert score(tmp_path / "run", settings=on_labeled).measures == before.measures
    assert list((tmp_path / "features").iterdir()) == [store]
    shutil.rmtree(store)
    again = with_options(tuning, features=(), output=tmp_path / "again", feature_folder=tmp_path / "features")
    finetune(replace(again, encoder=store.name))
    assert list((tmp_path / "features").iterdir()) == [store]


@pytest.mark.parametrize("preparation", get_args(Preparation))
def test_a_model_with_its_own_encoder_computes_the_features_it_was_trained_on(
    on_labeled: ScoreSettings, tmp_path: Path, preparation: Preparation
) -> None:
    name, weights = tiny_encoder()
    encoder = torch_encoder(name, weights, "cpu", size=32, preparation=preparation)
    shape = MLPSettings(2, encoder.width, 8)
    tuned = BoundaryModel(
        crn="mlp",
        network=build_network("mlp", shape),
        shape=shape,
        encoder=encoder.id,
        encoder_name=name,
        encoder_weights=weights,
        input_size=32,
        preparation=preparation,
    )
    save_boundary_model(tmp_path / "m.safetensors", tuned)
    assert len(score(tmp_path / "m.safetensors", settings=on_labeled).videos) == 2
    assert [store.name for store in on_labeled.data.features.iterdir()] == [encoder.id]
    other = tmp_path / "other.safetensors"
    of_five = torch_encoder(name, weights, "cpu", keyframes=5, size=32, preparation=preparation)
    save_boundary_model(other, replace(tuned, encoder=of_five.id, keyframes=5))
    refusal(lambda: score(other, settings=on_labeled), other, "extract as many keyframes", error=BasslError)


def test_an_imported_model_is_scored_on_one_keyframe_per_shot(on_labeled: ScoreSettings, tmp_path: Path) -> None:
    name, weights = tiny_encoder()
    encoder = torch_encoder(name, weights, "cpu")
    shape = replace(SHAPE, input_width=encoder.width)
    network = TransformerBoundary(shape)
    heads = {f"head_sbd.{part}": tensor for part, tensor in network.head_sbd.state_dict().items()}
    model = tmp_path / "m.safetensors"
    save_bassl_model(model, BasslWeights(BasslSettings(name, shape), weights, network.crn.state_dict(), heads))
    settings = with_options(on_labeled, index=put_labeled(tmp_path, images=1))
    assert [video.video for video in score(model, settings=settings).videos] == ["a", "b"]
    (store,) = settings.data.features.iterdir()
    assert store.name != encoder.id, "features of one keyframe a shot differ from the features of three"
    save_bassl_model(model, BasslWeights(BasslSettings(name, shape), {}, network.crn.state_dict(), heads))
    refused = f"m.safetensors: names the encoder {name}, whose weights would be downloaded; allow that with"
    refusal(lambda: score(model, settings=settings), refused, error=BasslError)


def test_a_pretrained_run_without_a_head_has_only_its_representation_scored(
    on_labeled: ScoreSettings, tmp_path: Path
) -> None:
    name, weights = tiny_encoder()
    path = tmp_path / "m.safetensors"
    save_bassl_model(path, BasslWeights(BasslSettings(name, None), dict(weights), {}, {}))
    refusal(lambda: score(path, settings=on_labeled), path, "`representation`", error=BasslError)
    result = score(path, settings=replace(on_labeled, representation=True))
    (store,) = on_labeled.data.features.iterdir()
    assert result.measures == {}
    # As text: NMI is nan, as these videos have no scenes long enough, and nan differs from itself.
    again = score(store, settings=replace(on_labeled, representation=True))
    assert repr(result.representation) == repr(again.representation)


@pytest.mark.parametrize(
    ("subject", "change", "words"),
    [
        ("run", {"split": "val"}, ["no labels for the split 'val'", "test, train", "`split=all`"]),
        ("run", {"index": Path("missing.h5")}, ["missing.h5", "bassl build-index"]),
        ("no_head.safetensors", {}, ["no_head.safetensors", "bassl finetune"]),
        ("other.safetensors", {}, ["other-8d", "`features`"]),
        ("other.safetensors", {"features": "features"}, ["other-8d"]),
        ("absent", {}, ["no such run or model", "default"]),
        ("absent.json", {}, ["pass the truth as the second argument"]),
        ("features", {}, ["`representation`"]),
        ("damaged.safetensors", {}, ["damaged.safetensors"]),
        ("default", {"index": "unlabeled.h5", "split": "all"}, ["labels"]),
        ("default", {"threshold": 1.5}, ["threshold", "1.5"]),
        ("default", {"at": 1.0}, ["at must be a softmax above 0 and below 1, for example 0.5, not 1"]),
        ("default", {"tolerance": -1.0}, ["tolerance"]),
        ("default", {"within": float("nan")}, ["within"]),
        ("default", {"frame_rate": 0.0}, ["frames per second"]),
        ("default", {"resamples": 10_000_000_000}, ["from 0 to 100,000"]),
        ("default", {"doubtful": "maybe"}, ["one of end, ignore", "'maybe'"]),
    ],
)
def test_what_cannot_be_scored_is_refused(
    home: Path, tmp_path: Path, settings: ScoreSettings, subject: str, change: dict[str, Any], words: list[str]
) -> None:
    put_pretrained(tmp_path / "no_head.safetensors", head="head_msm")
    save_boundary_model(tmp_path / "other.safetensors", model(encoder="other-8d"))
    (tmp_path / "damaged.safetensors").write_bytes(b"nothing")
    put_store(tmp_path / "keyframes" / "a.h5")
    unlabeled = build_index([tmp_path / "keyframes"], output=tmp_path / "unlabeled.h5").index.path
    paths = {"run": home / "run", "features": home / "features" / f"npz-{WIDTH}d", "unlabeled.h5": unlabeled}
    change = {name: paths.get(value, value) for name, value in change.items()}
    named = subject if subject == "default" else paths.get(subject, tmp_path / subject)
    refusal(lambda: score(named, settings=with_options(settings, **change)), *words, error=Exception)


def test_scoring_a_model_on_its_training_videos_is_reported_first(
    labeled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = with_options(QUICK, index=labeled, split="all", features=tmp_path / "features", device="cpu")
    assert not any("learned from" in note for note in score("default", settings=settings).notes)
    finetune(index=labeled, feature_folder=tmp_path / "features", output=tmp_path / "run", **SMALL)
    first, *_ = score(tmp_path / "run", settings=settings).notes
    assert first.startswith(f"{tmp_path / 'run'} learned from 2 of these 2 videos")
    trained = replace(open_model().boundary_model(), training={"trained_on": ["b", "x"]})
    monkeypatch.setattr(boundary, "load_boundary_model", lambda path: trained)
    first, *_ = score("default", settings=settings).notes
    assert first.startswith("the built-in model learned from 1 of these 2 videos")


# --- lists of scenes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "ends"), [(0.05, {0, 1, 2}), (0.5, {1}), (0.95, {1})])
def test_pinned_scene_ends_hold_for_every_threshold(tmp_path: Path, threshold: float, ends: set[int]) -> None:
    scenes = scene_list((0, 10, 20, 30, 40, 50), (1, 3), (0.1, 0.9, 0.2, 0.6, 0.3))
    pins = (None, True, None, False, None)
    shots = tuple(replace(shot, pinned=pin) for shot, pin in zip(scenes.shots, pins, strict=True))
    replace(scenes, shots=shots).save(tmp_path / "a.json")
    truth = put_csv(tmp_path / "truth.csv", 0, 20, 30, 50)
    (video,) = score(tmp_path / "a.json", truth, QUICK, threshold=threshold).videos
    assert set(np.flatnonzero(video.decisions(threshold)).tolist()) == ends


def test_a_scenes_json_against_itself_is_perfect(tmp_path: Path) -> None:
    path = put_scenes(tmp_path / "a.json")
    result = score(path, path)
    for name in ("f1", "precision", "recall", "recall_at_3s", "coverage", "coverage_overflow_f", "boundary_f1"):
        assert result.measures[name].pooled == 1.0
    assert result.measures["miou"].videos == 1.0
    assert result.measures["overflow"].pooled == 0.0
    assert "same shots" in result.notes[0]


def test_the_last_chapter_without_an_end_adds_no_scene_end(tmp_path: Path) -> None:
    guess = put_scenes(tmp_path / "a.json")  # scenes end at 20 and 40
    chapters, csv = put_chapters(tmp_path / "a.chapters.xml", 0, 20, 40), put_csv(tmp_path / "a.csv", 0, 20, 40, 50)
    result = score(guess, chapters, QUICK)
    (video,) = result.videos
    assert video.labels.tolist() == [0, 1, 0, 1, 0]
    assert result.measures["boundary_f1"].pooled == 1.0
    assert score(chapters, csv, QUICK).measures["boundary_f1"].pooled == 1.0


def test_coverage_of_scenes_without_shots_is_measured_in_seconds(tmp_path: Path) -> None:
    guess, truth = (0, 40, 100, 210, 300), (0, 50, 100, 200, 300)
    files = put_csv(tmp_path / "guess.csv", *guess), put_csv(tmp_path / "truth.csv", *truth)
    measures = score(*files, QUICK).measures
    predicted, labels = (np.isin(np.arange(10, 301, 10), cuts).astype(np.uint8) for cuts in (guess, truth))
    coverage, overflow, _ = coverage_overflow(labels, predicted)  # on shots of ten seconds each
    assert coverage == pytest.approx((40 + 50 + 100 + 90) / 300)
    assert measures["coverage"].pooled == pytest.approx(coverage)
    assert measures["overflow"].pooled == pytest.approx(overflow)


def test_labeled_features_are_compared_by_their_own_frame_rate(tmp_path: Path) -> None:
    shots = 12 * np.array([[0, 10], [10, 20], [20, 40], [40, 50]])
    arrays: dict[str, Any] = {
        "features": np.ones((4, 8), np.float32),
        "shots": shots,
        "scene_end": np.array([0, 1, 1, 0], np.uint8),
    }
    np.savez(tmp_path / "a.npz", **arrays, frame_rate=np.array(12.0))
    for guess in (put_scenes(tmp_path / "a.json"), put_csv(tmp_path / "a.csv", 0, 20, 40, 50)):
        result = score(guess, tmp_path / "a.npz", QUICK)
        assert result.measures["boundary_f1"].pooled == 1.0
        assert not any("same video" in note for note in result.notes)


def test_folders_are_matched_by_name_and_one_file_finds_its_truth_in_a_folder(tmp_path: Path) -> None:
    for name in "abc":
        put_scenes(tmp_path / "guess" / f"{name}.scenes.json")
    for name in "bcd":
        put_csv(tmp_path / "truth" / f"{name}.csv", 0, 20, 40, 50)
    (tmp_path / "guess" / "broken.json").write_text("{")
    (tmp_path / "truth" / "damaged.csv").write_text("damaged\n")
    put_scenes(tmp_path / "guess" / "video.json").rename(tmp_path / "guess" / "other.json")  # of another video id
    put_csv(tmp_path / "truth" / "other.csv", 0, 20, 40, 50)
    result = score(tmp_path / "guess", tmp_path / "truth", QUICK)
    assert [video.video for video in result.videos] == ["b", "c", "other"]
    assert result.measures["f1"].pooled == 1.0
    broken, damaged, alone, missing = result.problems
    assert ("broken.json" in broken, "damaged.csv" in damaged) == (True, True)
    assert "a.scenes.json: no truth of this name (a)" in alone
    assert "d.csv: no prediction of this name (d)" in missing
    alone = score(put_scenes(tmp_path / "b.json"), tmp_path / "truth", QUICK)
    assert ([video.video for video in alone.videos], alone.problems) == (["b"], ())


@pytest.mark.parametrize(
    ("subject", "truth", "change", "words"),
    [
        ("a.json", "missing.csv", {}, "missing.csv"),
        ("a.json", "a.json", {"representation": True}, "`representation`"),
        ("bad.json", "a.json", {}, "bad.json"),
        ("truth/t.csv", "a.json", {"threshold": 0.4}, "no scores"),
        ("a.json", "truth", {}, "no labels with the name of"),
        ("guess", "truth", {}, "no labels with the name of"),
        ("guess/tt01.json", "movienet", {}, "no shot list"),
        ("guess", "movienet", {}, "no shot list"),
    ],
)
def test_lists_that_cannot_be_scored_are_refused(
    tmp_path: Path, subject: str, truth: str, change: dict[str, Any], words: str
) -> None:
    put_scenes(tmp_path / "a.json")
    put_scenes(tmp_path / "guess" / "tt01.json")
    put_csv(tmp_path / "truth" / "t.csv", 0, 20, 50)
    (tmp_path / "bad.json").write_text('{"schema": "other"}')
    put_keyframes(tmp_path / "movienet", "tt01", seed=0)
    put_labels(tmp_path / "movienet", [0, 1, 0, 1], "tt01")
    refusal(lambda: score(tmp_path / subject, tmp_path / truth, QUICK, **change), words, error=BasslError)


# --- tables ----------------------------------------------------------------------------------------------------------

AP = Measure(0.4163, (0.4, 0.4322), 0.45, (0.41, 0.49))
MIOU = Measure(None, None, 0.5, (0.4, 0.6))
RESULT = ScoreResult("runs/a_b", (), {"ap": AP, "miou": MIOU}, 0.5, ScoreSettings())
ODD = TextTable(("a_b", "50 %"), (("x|y & #1", "1.0 ± 0.1"), ("~^\\{}$", "-")))


def test_table_values_are_percentages_and_undefined_metrics_and_intervals_are_left_out() -> None:
    assert table_of(RESULT) == TextTable(
        ("metric", "pooled", "95 % interval", "mean of videos", "95 % interval"),
        (("AP", "41.6", "40.0 to 43.2", "45.0", "41.0 to 49.0"), ("mIoU", "-", "-", "50.0", "40.0 to 60.0")),
    )
    alone = {"ap": Measure(0.4163, None, 0.45, None), "f1": Measure(None, None, None, None)}
    table = table_of(ScoreResult("x", (), alone, 0.5, ScoreSettings()))
    assert table == TextTable(("metric", "pooled", "mean of videos"), (("AP", "41.6", "45.0"),))


def test_seeds_add_a_column() -> None:
    spread = {"ap": SeedSpread({1: 0.41, 2: 0.43})}
    table = table_of(ScoreResult("x", (), RESULT.measures, 0.5, ScoreSettings(), spread))
    assert table.header[-1] == "mean of 2 seeds"
    assert [row[-1] for row in table.rows] == ["42.0 ± 1.4", "-"]
    table = table_of(ScoreResult("x", (), {"ap": AP}, 0.5, ScoreSettings(), {"ap": SeedSpread({3: 0.42})}))
    assert (table.header[-1], table.rows[0][-1]) == ("mean of 1 seed", "42.0")


def test_characters_that_mean_something_in_a_format_are_escaped() -> None:
    assert markdown(ODD).splitlines()[:3] == ["| a_b | 50 % |", "| --- | ---: |", "| x\\|y & #1 | 1.0 ± 0.1 |"]
    assert latex(ODD) == (
        "\\begin{tabular}{lr}\n\\toprule\na\\_b & 50 \\% \\\\\n\\midrule\n"
        "x|y \\& \\#1 & 1.0 $\\pm$ 0.1 \\\\\n"
        "\\textasciitilde{}\\textasciicircum{}\\textbackslash{}\\{\\}\\$ & - \\\\\n"
        "\\bottomrule\n\\end{tabular}\n"
    )
    assert list(csv.reader(io.StringIO(comma_separated(ODD)))) == [list(ODD.header), *map(list, ODD.rows)]


def test_the_suffix_selects_the_format_and_another_is_refused_before_any_work(tmp_path: Path) -> None:
    for name, text in {"a.md": "| AP |", "a.tex": "AP &", "a.csv": "AP,", "a.json": '"ap"', "A.MD": "| AP |"}.items():
        save_table(tmp_path / "new" / name, RESULT)
        assert text in (tmp_path / "new" / name).read_text()
    refusal(lambda: check_table(tmp_path / "a.xls", ()), "a.xls", ".md, .tex, .csv or .json", error=BasslError)
