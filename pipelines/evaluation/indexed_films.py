"""Films of an index with scores for their shots, in the form that metrics take."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.metrics import FilmScores
from pipelines.stores.index import Index


def film_scores(
    index: Index,
    video: int,
    scores: NDArray[np.float64],
    frame_rate: float | None = None,
    predicted: NDArray[np.bool_] | None = None,
) -> FilmScores:
    """One film's labels, shots and times from the rows of an index, with what a model says of its shots.

    Args:
        index: of the film.
        video: which of its videos.
        scores: (N,), higher where a scene end is more likely.
        frame_rate: frames a second, for a film whose index has no times.
        predicted: (N,) as in :class:`FilmScores`.
    """
    span = index.span(video)
    return FilmScores(
        labels=index.targets(np.arange(span.start, span.stop)).astype(np.uint8),
        scores=scores,
        shots=index.frames[span].astype(np.int64),
        seconds=index.times(video, frame_rate),
        known=index.usable[span],
        predicted=predicted,
        film=index.video_ids[video],
    )
