"""Videos of an index with scores for their shots, in the form that metrics take."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.metrics import VideoScores
from pipelines.stores.index import Index


def video_scores(index: Index, video: int, scores: NDArray[np.float64], frame_rate: float | None = None) -> VideoScores:
    """Labels, shots and times of a video of an index, with the scores (N,) of a model, as in :class:`VideoScores`;
    `frame_rate` (frames per second) is for an index without times."""
    span = index.span(video)
    return VideoScores(
        labels=index.targets(np.arange(span.start, span.stop)).astype(np.uint8),
        scores=scores,
        shots=index.frames[span].astype(np.int64),
        seconds=index.times(video, frame_rate),
        known=index.usable[span],
        video=index.video_ids[video],
    )
