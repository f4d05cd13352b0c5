"""The fit of the linear model, against scipy; and a model of one's own, chosen by leaving videos out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import average_precision_score, f1_score

from pipelines.models.calibration import Calibration, best_f1_threshold
from pipelines.models.networks.cut_evidence import token_width
from pipelines.models.networks.relational import LinearModel, relational_logits
from pipelines.training.relational_fit import (
    LabeledTokens,
    adapt_model,
    fit_linear_models,
    operating_point,
)

F = token_width()


def random_model(seed: int, scale: float = 0.3) -> LinearModel:
    rng = np.random.default_rng(seed)
    return LinearModel(np.append(rng.normal(size=F - 1) * scale, 0).astype(np.float32), 0.25)


def video_of(truth: LinearModel, seed: int, shots: int = 120, noise: float = 1.0) -> LabeledTokens:
    """Random evidence, and labels by a linear model with noise."""
    rng = np.random.default_rng(seed)
    tokens = np.hstack([rng.normal(size=(shots, F - 1)), np.ones((shots, 1))]).astype(np.float32)
    tokens[-1] = 0
    logits = truth.token_logits(tokens) + noise * rng.logistic(size=shots)
    ends = (logits > np.quantile(logits, 0.85)).astype(np.uint8)
    ends[-1] = 0
    return LabeledTokens(tokens, ends)


@pytest.mark.parametrize("penalty", [0.01, 0.5, 20.0])
@pytest.mark.parametrize("start", [None, random_model(9, 2.0)])
def test_the_fit_is_the_optimum_that_scipy_finds(penalty: float, start: LinearModel | None) -> None:
    videos = [video_of(random_model(0), seed) for seed in (1, 2)]
    x = np.concatenate([video.tokens[:-1, :-1] for video in videos]).astype(np.float64)
    y = np.concatenate([video.scene_end[:-1] for video in videos])
    deviation = x.std(axis=0, ddof=1)
    center = np.zeros(F - 1) if start is None else start.weight[:-1].astype(np.float64)
    share = np.where(y == 1, 0.5 / y.sum(), 0.5 / (y == 0).sum())

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        logits = x @ point[:-1] + point[-1]
        away = (point[:-1] - center) * deviation
        value = share @ np.logaddexp(0, np.where(y == 1, -logits, logits)) + penalty / 2 * away @ away
        error = share * (1 / (1 + np.exp(-logits)) - y)
        return value, np.append(x.T @ error + penalty * away * deviation, error.sum())

    best = minimize(
        loss, np.zeros(F), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}
    )
    model = fit_linear_models(videos, (3.0, penalty), start)[1]
    fitted = np.append(model.weight[:-1].astype(np.float64), model.bias)
    assert loss(fitted)[0] == pytest.approx(best.fun, abs=1e-7)
    np.testing.assert_allclose(fitted, best.x, atol=1e-3)
    assert np.abs(loss(fitted)[1]).max() < 1e-5


START, CALIBRATION = random_model(3), Calibration(slope=0.8, offset=1.0)


def shifted(model: LinearModel, seed: int, share: float) -> LinearModel:
    """A model between this one and a random one."""
    other = random_model(seed).weight
    return replace(model, weight=((1 - share) * model.weight + share * other).astype(np.float32))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noise", [0.5, 50.0])
def test_no_model_is_worse_than_the_first_one_on_the_videos_left_out(seed: int, noise: float) -> None:
    videos = [video_of(START, 10 * seed + i, 40 + 20 * i, noise) for i in range(2 + seed % 3)]
    own = adapt_model(videos, START, CALIBRATION)
    assert own.measured["ap"] >= own.measured["ap_before"]
    if own.strength is None:
        assert own.network is START
        assert own.measured["f1"] >= own.measured["f1_before"]
        assert own.adapted or own.calibration == CALIBRATION


def test_the_measures_are_those_of_models_that_learned_without_the_video() -> None:
    videos = [video_of(shifted(START, 5, 0.5), seed, 200) for seed in range(4)]
    own = adapt_model(videos, START, CALIBRATION)
    assert own.strength is not None
    blind = []
    for left_out in videos:
        rest = [video for video in videos if video is not left_out]
        ends = sum(int(video.scene_end.sum()) for video in rest)
        (model,) = fit_linear_models(rest, [own.strength / ends], START)
        blind.append(relational_logits(model, left_out.tokens))
    before, labels = [relational_logits(START, video.tokens) for video in videos], [video.scene_end for video in videos]

    def others(values: list[np.ndarray], left_out: int) -> list[np.ndarray]:
        return values[:left_out] + values[left_out + 1 :]

    decided = [logits >= CALIBRATION.offset for logits in before]
    for i, logits in enumerate(blind):
        three = (others(values, i) for values in (before, blind, labels))
        decided.append(logits >= operating_point(*three, CALIBRATION.offset, own.adapted))
    f1 = [f1_score(np.concatenate(labels), np.concatenate(ends)) for ends in (decided[:4], decided[4:])]
    ap = [np.mean(list(map(average_precision_score, labels, logits))) for logits in (before, blind)]
    expected = {"ap_before": ap[0], "ap": ap[1], "f1_before": f1[0], "f1": f1[1]}
    assert own.measured == pytest.approx(expected)


def test_the_operating_point_finds_as_many_scene_ends_as_before_or_moves_toward_the_labels() -> None:
    videos = [video_of(START, seed, 200) for seed in range(3)]
    labels = [video.scene_end for video in videos]
    before = [relational_logits(START, video.tokens) for video in videos]
    after = [3 * logits + 7 for logits in before]
    same = operating_point(before, after, labels, CALIBRATION.offset, adapted=False)
    assert sum(int((one >= same).sum()) for one in after) == sum(int((one >= 1.0).sum()) for one in before)
    assert operating_point(before, before, labels, CALIBRATION.offset, adapted=False) == CALIBRATION.offset
    ends, best = (
        sum(int(one.sum()) for one in labels),
        best_f1_threshold(np.concatenate(before), np.concatenate(labels)),
    )
    mean = (ends * best + 100 * CALIBRATION.offset) / (ends + 100)
    assert operating_point(before, before, labels, CALIBRATION.offset) == pytest.approx(mean)


def test_one_video_only_adapts_the_operating_point() -> None:
    own = adapt_model([video_of(random_model(7), 1)], START, CALIBRATION)
    assert (own.network, own.strength, own.adapted, own.measured) == (START, None, True, {})
    assert own.calibration.offset != CALIBRATION.offset
