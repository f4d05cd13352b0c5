"""Training the model in the box: what is shown is what the labels mean, it learns, and it can be made again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipelines.datasets.shot_features import ShotFeatures
from pipelines.evaluation.calibration import best_f1_threshold, platt_slope
from pipelines.evaluation.metrics import average_precision, f1_at
from pipelines.list_models import read_facts
from pipelines.models.relational import RelationalScorer, RelationalSettings, calibrated, load_scorer
from pipelines.training.default_model import (
    calibrate,
    closest_across,
    cross_validate,
    disguises,
    folds,
    left_right_contrast,
    main,
    train_network,
    train_scorer,
)
from pipelines.training.relational_films import Film, TrainingSettings, as_film, backwards, with_scenes_reordered

SHAPE = RelationalSettings(neighbors=4, width=16, heads=2, hidden=32)
TRAINING = TrainingSettings(epochs=6, batch_size=32, learning_rate=3e-3, members=1)


def made_up(seed: int, name: str = "made", scenes: int = 12, D: int = 24) -> ShotFeatures:
    """A film of scenes of 3 to 8 shots; within a scene two settings alternate, so neighbours are not the most alike."""
    rng = np.random.default_rng(seed)
    rows, ends = [], []
    for _ in range(scenes):
        common, sides = rng.normal(size=D), rng.normal(size=(2, D))
        length = int(rng.integers(3, 9))
        rows += [1.2 * common + sides[i % 2] + 0.4 * rng.normal(size=D) for i in range(length)]
        ends += [0] * (length - 1) + [1]
    ends[-1] = 0
    edges = np.concatenate([[0], np.cumsum(rng.integers(24, 240, size=len(rows)))])
    return ShotFeatures(
        f"{name}/{seed:02}",
        np.asarray(rows, dtype=np.float32),
        np.stack([edges[:-1], edges[1:]], axis=1).astype(np.int64),
        np.asarray(ends, dtype=np.uint8),
    )


def scenes_of(film: Film) -> list[list[float]]:
    """The film as scenes, each a list of its shots' first feature."""
    scenes: list[list[float]] = [[]]
    for row, end in zip(film.features, film.scene_end, strict=True):
        scenes[-1].append(float(row[0]))
        if end:
            scenes.append([])
    return [scene for scene in scenes if scene]


# What training shows.


def test_backwards_keeps_every_scene_whole() -> None:
    film = as_film(made_up(0))
    assert scenes_of(backwards(film)) == [scene[::-1] for scene in scenes_of(film)][::-1]
    assert backwards(film).scene_end[-1] == 0
    np.testing.assert_array_equal(backwards(film).durations, film.durations[::-1])
    again = backwards(backwards(film))
    np.testing.assert_array_equal(again.scene_end, film.scene_end)
    np.testing.assert_array_equal(again.features, film.features)


def test_reordering_keeps_every_scene_whole() -> None:
    film = as_film(made_up(0))
    other = with_scenes_reordered(film, np.random.default_rng(0))
    assert scenes_of(other) != scenes_of(film)
    assert sorted(scenes_of(other)) == sorted(scenes_of(film))
    lengths = dict(zip(film.features[:, 0].tolist(), film.durations.tolist(), strict=True))
    assert [lengths[value] for value in other.features[:, 0].tolist()] == other.durations.tolist()


def test_both_serve_a_film_of_one_shot_or_one_scene() -> None:
    for N in (1, 4):
        film = Film(np.arange(N, dtype=np.float32)[:, None], np.ones(N, np.int64), np.zeros(N, np.uint8))
        assert backwards(film).scene_end.tolist() == [0] * N
        assert scenes_of(with_scenes_reordered(film, np.random.default_rng(0))) == scenes_of(film)


def test_folds_hold_every_video_once() -> None:
    assert folds(7, 3) == [[0, 3, 6], [1, 4], [2, 5]]
    assert folds(2, 5) == [[0], [1]]


# Training.


@pytest.fixture(scope="module")
def taught() -> RelationalScorer:
    return train_scorer([made_up(seed) for seed in range(8)], SHAPE, TRAINING)


def pooled_ap(scores: list[NDArray[np.float64]], videos: list[ShotFeatures]) -> float:
    return average_precision(np.concatenate([video.scene_end for video in videos]), np.concatenate(scores))


def test_training_learns_scenes_of_films_it_has_not_seen(taught: RelationalScorer) -> None:
    unseen = [made_up(seed) for seed in range(100, 104)]
    chance = np.mean(np.concatenate([video.scene_end for video in unseen]))
    untaught = train_scorer(unseen[:1], SHAPE, replace(TRAINING, epochs=0))
    learnt = pooled_ap([taught.score(video.features, video.durations) for video in unseen], unseen)
    assert learnt > 0.8
    assert learnt > pooled_ap([untaught.score(v.features, v.durations) for v in unseen], unseen) + 0.3
    assert learnt > chance + 0.5


def test_what_it_learnt_holds_for_another_encoder(taught: RelationalScorer) -> None:
    unseen = [made_up(seed, D=200) for seed in range(200, 204)]
    for name, disguise in disguises(200).items():
        if "sixteenth" in name or "quarter" in name:
            continue  # few dimensions hold little of these made-up scenes
        assert pooled_ap([taught.score(disguise(v.features), v.durations) for v in unseen], unseen) > 0.75, name


def test_the_same_seed_trains_the_same_network_and_another_does_not() -> None:
    films = [as_film(made_up(seed)) for seed in range(2)]
    short = replace(TRAINING, epochs=1)
    before = torch.random.get_rng_state()
    one, same, other = (train_network(films, SHAPE, short, seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_films_that_teach_nothing_are_refused() -> None:
    video = made_up(0)
    for films in ([], [replace(as_film(video), scene_end=np.zeros_like(video.scene_end))]):
        with pytest.raises(ValueError, match="scene ends"):
            train_network(films, SHAPE, TRAINING, 0)
    with pytest.raises(ValueError, match="two videos"):
        cross_validate([video], SHAPE, TRAINING)


def test_no_scorer_of_cross_validation_has_seen_what_it_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    videos = [made_up(seed) for seed in range(5)]
    seen: dict[int, list[str]] = {}

    def note(taught: list[ShotFeatures], *_: object) -> RelationalScorer:
        scorer = train_scorer([made_up(0)], SHAPE, replace(TRAINING, epochs=0))
        seen[id(scorer)] = [video.video_id for video in taught]
        return scorer

    monkeypatch.setattr("pipelines.training.default_model.train_scorer", note)
    scorers = cross_validate(videos, SHAPE, TRAINING, number=3)
    for video, scorer in zip(videos, scorers, strict=True):
        assert video.video_id not in seen[id(scorer)]
        assert len(seen[id(scorer)]) >= 3


# Calibration.


def test_the_slope_of_labels_drawn_from_a_logistic_is_found() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(1, 3, size=40_000)
    labels = (rng.random(40_000) < 1 / (1 + np.exp(-(0.6 * logits - 2)))).astype(np.uint8)
    assert platt_slope(logits, labels) == pytest.approx(0.6, rel=0.03)


def test_the_slope_stays_finite_where_classes_are_apart_and_is_refused_where_they_are_upside_down() -> None:
    logits, labels = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0, 0, 1, 1], dtype=np.uint8)
    assert 0 < platt_slope(logits, labels) < 10
    with pytest.raises(ValueError, match="do not rise"):
        platt_slope(-logits, labels)
    with pytest.raises(ValueError, match="both classes"):
        platt_slope(logits, np.ones(4, np.uint8))


@pytest.mark.parametrize("seed", range(10))
def test_no_threshold_has_a_better_f1(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.integers(-4, 5, size=60) / 2  # many are equal
    labels = (rng.random(60) < 0.3).astype(np.uint8)
    found = f1_at(labels, logits, best_f1_threshold(logits, labels))
    assert found == pytest.approx(max(f1_at(labels, logits, t) for t in logits))


def test_half_is_the_operating_point_and_order_is_kept() -> None:
    videos = [made_up(seed) for seed in range(4)]
    rng = np.random.default_rng(0)
    logits = [3 * video.scene_end + rng.normal(size=len(video.scene_end)) for video in videos]
    calibration = calibrate(logits, videos)
    labels, pooled = np.concatenate([video.scene_end for video in videos]), np.concatenate(logits)
    scores = calibrated(pooled, calibration)
    assert f1_at(labels, scores, 0.5) == pytest.approx(max(f1_at(labels, scores, t) for t in scores))
    np.testing.assert_array_equal(np.argsort(scores, kind="stable"), np.argsort(pooled, kind="stable"))


# The baseline.


def test_contrast_is_what_the_text_says() -> None:
    video = made_up(1)
    x = video.features.astype(np.float64) - video.features.astype(np.float64).mean(axis=0)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    table, N, reach = unit @ unit.T, len(x), 3
    pairs = [table[i, j] for i in range(N) for j in range(i + 1, min(N, i + 2 * reach + 1))]
    table = (table - np.mean(pairs)) / np.std(pairs)
    expected = []
    for cut in range(N - 1):
        left, right = np.arange(max(0, cut - reach + 1), cut + 1), np.arange(cut + 1, min(N, cut + 1 + reach))
        inside = (table[np.ix_(left, left)].mean() + table[np.ix_(right, right)].mean()) / 2
        expected.append(inside - table[np.ix_(left, right)].mean())
    found = left_right_contrast(video, reach)
    np.testing.assert_allclose(found[:-1], np.clip(expected, -6, 6), atol=1e-4)
    assert found[-1] == found[:-1].min()


def test_closest_pair_is_what_the_text_says() -> None:
    video = made_up(1)
    x = video.features.astype(np.float64) - video.features.astype(np.float64).mean(axis=0)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    table, N, reach = unit @ unit.T, len(x), 3
    pairs = [table[i, j] for i in range(N) for j in range(i + 1, min(N, i + 2 * reach + 1))]
    expected = [
        -((table[max(0, cut - reach + 1) : cut + 1, cut + 1 : cut + 1 + reach].max() - np.mean(pairs)) / np.std(pairs))
        for cut in range(N - 1)
    ]
    found = closest_across(video, reach)
    np.testing.assert_allclose(found[:-1], expected, atol=1e-4)
    assert found[-1] <= found[:-1].min()


def test_baselines_serve_a_film_of_one_shot() -> None:
    video = ShotFeatures("one/01", np.ones((1, 4), np.float32), np.array([[0, 9]]), np.zeros(1, np.uint8))
    for baseline in (left_right_contrast, closest_across):
        assert np.isfinite(baseline(video, 3)).all()


# The whole.


def write(folder: Path, video: ShotFeatures) -> None:
    path = folder / f"{video.video_id}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, features=video.features, shots=video.shots, scene_end=video.scene_end)


def test_the_command_writes_a_model_and_its_card_the_same_ones_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2):
        write(tmp_path / "features", made_up(seed, "one", scenes=6))
        write(tmp_path / "features", made_up(seed + 10, "two", scenes=6))
    monkeypatch.setattr("pipelines.training.default_model.SHAPE", SHAPE)
    monkeypatch.setattr("pipelines.training.default_model.FOLDS", 2)
    monkeypatch.setattr("pipelines.training.default_model.TRAINING", replace(TRAINING, epochs=3, members=2))
    for name in ("first", "second"):
        main([str(tmp_path / "features"), "--output", str(tmp_path / name / "model.safetensors")])
    assert capsys.readouterr().out == ""
    for file in ("model.safetensors", "MODEL_CARD.md", "model.json"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()

    scorer = load_scorer(tmp_path / "first" / "model.safetensors")
    assert len(scorer.members) == 2
    card = (tmp_path / "first" / "MODEL_CARD.md").read_text()
    assert "| one | two |" in card
    assert "| two | one |" in card
    assert "nan" not in card.lower()
    assert str(tmp_path) not in card
    facts = read_facts(tmp_path / "first" / "model.safetensors")
    assert [(each["set"], each["videos"]) for each in facts["trained_on"]] == [("one", 2), ("two", 2)]
    assert [each["how"] for each in facts["measured"]] == ["2-fold cross-validation", "one to two", "two to one"]
    assert f"| 2 networks together | {100 * facts['measured'][0]['ap']:.1f} |" in card


def test_a_folder_without_features_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path)])
    assert caught.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
