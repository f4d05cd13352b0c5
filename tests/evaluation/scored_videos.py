"""Scores and labels of videos that do not exist."""

from __future__ import annotations

import numpy as np

from pipelines.evaluation.metrics import VideoScores


def videos(number: int = 6, shots: int = 60, seed: int = 0, levels: int = 0, timed: bool = True) -> list[VideoScores]:
    """Videos with noisy scores, of ``levels`` + 1 different values if it is not 0; some shots have no label."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(number):
        N = shots + int(rng.integers(0, 30))
        labels = (rng.random(N) < 0.15).astype(np.uint8)
        labels[[3, 9]] = 1
        labels[-1] = 0
        scores = np.clip(rng.normal(0.35, 0.2, N) + 0.2 * labels, 0, 1)
        if levels:
            scores = np.round(scores * levels) / levels
        edges = np.append(0, np.cumsum(rng.integers(10, 150, N)))
        frames = np.stack([edges[:-1], edges[1:]], axis=1)
        known = rng.random(N) > 0.05
        known[[3, 4]] = True
        made.append(
            VideoScores(labels, scores, frames, seconds=frames / 24 if timed else None, known=known, video=f"video {i}")
        )
    return made


def one_video(labels: list[int], scores: list[float]) -> VideoScores:
    """A video of shots of one frame and one second."""
    N = len(labels)
    shots = np.stack([np.arange(N), np.arange(1, N + 1)], axis=1)
    return VideoScores(np.array(labels, np.uint8), np.array(scores), shots, seconds=shots.astype(float))
