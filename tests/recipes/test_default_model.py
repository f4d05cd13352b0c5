"""The recipe of the built-in model: perturbations keep labels valid, training works, and the result is reproducible."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.metrics import f1_score

from pipelines.datasets.sources import ShotFeatures
from pipelines.evaluation.metrics import average_precision
from pipelines.models.boundary import BoundaryModel, load_boundary_model
from pipelines.models.calibration import apply_calibration, platt_slope
from pipelines.models.networks import RelationalSettings
from pipelines.training.relational_fit import LabeledVideo, reorder_scenes
from recipes.default_model import __main__ as make, fitting
from recipes.default_model.__main__ import main
from recipes.default_model.fitting import (
    calibrate,
    fit,
    form_of,
    perturb,
    whole_form,
)
from recipes.default_model.perturbations import PERTURBATIONS, Perturbation, merge_shots, remove_shots, split_shots

PENALTY = 0.1


def made_up(seed: int, name: str = "made", scenes: int = 12, D: int = 24) -> ShotFeatures:
    """A video of scenes of 3 to 8 shots; within a scene two settings alternate, so neighbors are not the most
    alike."""
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


def test_reordering_keeps_every_scene_whole() -> None:
    drawn = made_up(0)
    video = LabeledVideo(drawn.features, drawn.seconds, drawn.scene_end)
    other = reorder_scenes(video, np.random.default_rng(0))

    def scenes(video: LabeledVideo) -> list[list[list[float]]]:
        shots = np.column_stack([video.features, video.durations])
        return [scene.tolist() for scene in np.split(shots, np.flatnonzero(video.scene_end) + 1)]

    assert scenes(other) != scenes(video)
    assert sorted(scenes(other)) == sorted(scenes(video))


@pytest.fixture(scope="module")
def trained() -> BoundaryModel:
    network = fit([form_of(made_up(seed)) for seed in range(8)], PENALTY)
    return BoundaryModel(crn="relational", network=network, shape=RelationalSettings())


def pooled_ap(scores: list[NDArray[np.float64]], videos: list[ShotFeatures]) -> float:
    return average_precision(np.concatenate([video.scene_end for video in videos]), np.concatenate(scores))


def test_the_model_finds_scenes_of_unseen_videos_also_with_another_encoder(
    trained: BoundaryModel,
) -> None:
    unseen = [made_up(seed, D=200) for seed in range(100, 104)]
    assert np.mean(np.concatenate([video.scene_end for video in unseen])) < 0.3  # what chance gives
    assert pooled_ap([trained.score(video.features, video.seconds) for video in unseen], unseen) > 0.8
    for name in ("features raised to a power", "random projection and ReLU", "noise on the features"):
        shown = [perturb(video, PERTURBATIONS[name], np.random.default_rng(0)) for video in unseen]
        assert pooled_ap([trained.score(v.features, v.seconds) for v in shown], shown) > 0.75, name


def test_the_fit_minimizes_the_loss() -> None:
    """Against plain gradient descent on the same loss."""
    forms = [form_of(made_up(seed)) for seed in range(2)]
    x = torch.from_numpy(np.concatenate([form.tokens[:-1, :-1] for form in forms])).double()
    y = torch.cat([torch.from_numpy(form.video.scene_end[:-1]) for form in forms]).double()
    deviation = x.std(dim=0).clamp_min(1e-6)
    arrays = fit(forms, PENALTY).arrays()
    weights = torch.from_numpy(arrays["weighing.weight"][0, :-1]).double() * deviation
    bias = float(arrays["weighing.bias"][0]) + float((weights / deviation) @ x.mean(dim=0))
    point = torch.cat([weights, torch.tensor([bias], dtype=torch.float64)]).requires_grad_()
    logits = ((x - x.mean(dim=0)) / deviation) @ point[:-1] + point[-1]
    share = torch.where(y == 1, 0.5 / y.sum(), 0.5 / (1 - y).sum())
    loss = (share * F.binary_cross_entropy_with_logits(logits, y, reduction="none")).sum()
    loss = loss + PENALTY / 2 * (point[:-1] ** 2).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(point.grad.abs().max()) < 1e-5


def test_a_model_learns_from_the_parts_of_videos_as_from_short_videos() -> None:
    videos = [whole_form(made_up(seed, scenes=4)) for seed in range(2)]
    several = [each._replace(parts=()) for form in videos for each in (form, *form.parts)]
    assert len(several) > 4
    whole, apart = fit(videos, PENALTY).arrays(), fit(several, PENALTY).arrays()
    assert all(np.array_equal(whole[name], apart[name]) for name in whole)


def test_platt_scaling_recovers_the_slope_of_logistic_labels_and_is_finite_for_separable_classes() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(1, 3, size=40_000)
    labels = (rng.random(40_000) < 1 / (1 + np.exp(-(0.6 * logits - 2)))).astype(np.uint8)
    assert platt_slope(logits, labels) == pytest.approx(0.6, rel=0.03)
    assert 0 < platt_slope(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0, 0, 1, 1], np.uint8)) < 10
    with pytest.raises(ValueError, match="do not increase"):
        platt_slope(-logits, labels)
    with pytest.raises(ValueError, match="both classes"):
        platt_slope(logits, np.ones_like(labels))


def test_after_calibration_the_best_f1_is_at_0_5_and_the_order_is_kept() -> None:
    videos = [made_up(seed, scenes=6) for seed in range(3)]
    rng = np.random.default_rng(0)
    logits = [np.round(2 * video.scene_end + rng.normal(size=len(video.scene_end)), 1) for video in videos]
    labels, pooled = np.concatenate([video.scene_end for video in videos]), np.concatenate(logits)
    scores = apply_calibration(pooled, calibrate(logits, videos))
    assert f1_score(labels, scores >= 0.5) == pytest.approx(max(f1_score(labels, scores >= t) for t in scores))
    np.testing.assert_array_equal(np.argsort(scores, kind="stable"), np.argsort(pooled, kind="stable"))


def test_the_command_writes_a_reproducible_model_and_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path)])
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    for seed, name in enumerate(("one", "one", "two", "two")):
        video = made_up(seed, name, scenes=6)
        path = tmp_path / "features" / f"{video.video_id}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, features=video.features, shots=video.shots, scene_end=video.scene_end)
    monkeypatch.setattr(make, "DRAWS", 2)
    monkeypatch.setattr(fitting, "PENALTIES", (0.1, 1.0))
    monkeypatch.setattr(fitting, "PERTURBATIONS", {"shots merged": PERTURBATIONS["shots merged"]})

    for name in ("first", "again"):
        main([str(tmp_path / "features"), "--output", str(tmp_path / name / "model.safetensors")])
    assert capsys.readouterr().out == ""
    for file in ("model.safetensors", "MODEL_CARD.md"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()

    model = load_boundary_model(tmp_path / "first" / "model.safetensors")
    card = (tmp_path / "first" / "MODEL_CARD.md").read_text()
    assert all(row in card for row in ("| the other folds | each of 4 |", "| one | two |", "| two | one |"))
    assert "nan" not in card.lower()
    assert str(tmp_path) not in card
    training = model.training
    assert [(each["set"], each["videos"]) for each in training["sets"]] == [("one", 2), ("two", 2)]
    assert len(training["trained_on"]) == 4
    assert [each["how"] for each in training["measured"]] == [
        "4-fold cross-validation",
        "one to two",
        "two to one",
        "nested cross-validation",
    ]
    assert f"| all | {100 * training['measured'][0]['ap']:.1f} |" in card


def video(N: int = 60, D: int = 32, signed: bool = False, seed: int = 0) -> LabeledVideo:
    """Scenes of 1 to 6 shots; the first feature is the scene's number."""
    rng = np.random.default_rng(seed)
    scene = np.repeat(np.arange(N), rng.integers(1, 7, size=N))[:N]
    features = rng.normal(size=(N, D)) if signed else rng.random((N, D))
    features[:, 0] = scene
    ends = np.append(scene[1:] != scene[:-1], False)
    return LabeledVideo(features.astype(np.float32), rng.integers(10, 200, size=N), ends.astype(np.uint8))


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_a_perturbation_returns_a_new_video_and_keeps_the_input(name: str) -> None:
    for given in (video(), video(signed=True), video(N=1), video(N=2, D=1)):
        before = given.features.copy(), np.array(given.durations), given.scene_end.copy()
        made = PERTURBATIONS[name](given, np.random.default_rng(1))
        assert made.features.dtype == np.float32
        assert made.durations.shape == made.scene_end.shape == made.features.shape[:1]
        assert np.isfinite(made.features).all()
        assert (made.durations > 0).all()
        assert (made.features >= 0).all() or (given.features < 0).any()
        for was, now in zip(before, (given.features, given.durations, given.scene_end), strict=True):
            np.testing.assert_array_equal(was, now)


@pytest.mark.parametrize("perturbation", [merge_shots, split_shots, remove_shots])
def test_merged_split_and_removed_shots_keep_their_scenes(perturbation: Perturbation) -> None:
    given = video()
    made = perturbation(given, np.random.default_rng(0))
    # The halves of a split shot carry noise; all others still tell their scene.
    kept = np.isin(made.features[:, 0], given.features[:, 0])
    assert np.sign(len(made.features) - len(given.features)) == (1 if perturbation is split_shots else -1)
    scenes, names = (np.cumsum(made.scene_end) - made.scene_end)[kept], made.features[kept, 0]
    np.testing.assert_array_equal(np.diff(scenes) != 0, np.diff(names) != 0)
    if perturbation is not remove_shots:
        assert made.durations.sum() == pytest.approx(given.durations.sum())
        assert made.scene_end.sum() == given.scene_end.sum()
    if perturbation is merge_shots:
        assert kept.all()
        assert set(names) == set(given.features[:, 0])
