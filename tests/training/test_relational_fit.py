"""The fit of the linear model, against scipy; and a model of one's own, chosen by leaving videos out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from pipelines.models.cut_evidence import token_width
from pipelines.models.networks import RelationalSettings
from pipelines.models.relational import LinearModel
from pipelines.training.relational_fit import LabelledTokens, fit_linear_model

F = token_width()


def random_model(seed: int, scale: float = 0.3) -> LinearModel:
    rng = np.random.default_rng(seed)
    return LinearModel(np.append(rng.normal(size=F - 1) * scale, 0).astype(np.float32), 0.25, RelationalSettings())


def video_of(truth: LinearModel, seed: int, shots: int = 120, noise: float = 1.0) -> LabelledTokens:
    """Random evidence, and labels by a linear model with noise."""
    rng = np.random.default_rng(seed)
    tokens = np.hstack([rng.normal(size=(shots, F - 1)), np.ones((shots, 1))]).astype(np.float32)
    tokens[-1] = 0
    logits = truth.token_logits(tokens) + noise * rng.logistic(size=shots)
    ends = (logits > np.quantile(logits, 0.85)).astype(np.uint8)
    ends[-1] = 0
    return LabelledTokens(tokens, ends)


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
    model = fit_linear_model(videos, penalty, start)
    fitted = np.append(model.weight[:-1].astype(np.float64), model.bias)
    assert loss(fitted)[0] == pytest.approx(best.fun, abs=1e-7)
    np.testing.assert_allclose(fitted, best.x, atol=1e-3)
    assert np.abs(loss(fitted)[1]).max() < 1e-5
