import numpy as np
import pytest

from pipelines.evaluation.metrics import VideoScores, pooled_shots, reliability
from tests.evaluation.scored_videos import one_video, videos


def test_the_reliability_diagram_has_the_share_of_scene_ends_by_score() -> None:
    video = one_video([0, 1, 0, 1, 1, 0], [0.05, 0.1, 0.15, 1.0, 0.95, 0.55])
    bins = reliability([video], 10)
    assert bins.shots.tolist() == [1, 2, 0, 0, 0, 1, 0, 0, 0, 2]
    assert bins.share[[0, 1, 5, 9]].tolist() == [0.0, 0.5, 0.0, 1.0]
    assert bins.score[[0, 1, 5, 9]] == pytest.approx([0.05, 0.125, 0.55, 0.975])
    assert np.isnan(bins.share[2])
    assert bins.error == pytest.approx((0.05 + 2 * 0.375 + 0.55 + 2 * 0.025) / 6)


def test_perfectly_calibrated_scores_have_no_calibration_error() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(200_000)
    labels = (rng.random(200_000) < scores).astype(np.uint8)
    assert reliability([VideoScores(labels, scores, np.zeros((200_000, 2), np.int64))]).error < 0.01


def test_shots_without_labels_are_in_no_curve() -> None:
    (video,) = videos(1)
    assert len(pooled_shots([video])[0]) == video.counted().sum() < len(video.labels)
