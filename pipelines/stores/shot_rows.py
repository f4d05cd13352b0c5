"""Values of all shots of an index, gathered from one array per video."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ShotRows:
    """Values (T, D) of the shots of an index, in one array (N, D) per video, all of width D.

    The arrays may be mapped from files: only what is read takes memory. ``rows[start:end]``, within one video, is a
    view; ``rows[numbers]``, an array (...) of row numbers, is a copy (..., D). Both have the stored type.
    """

    def __init__(self, first_row: NDArray[np.int64], videos: Mapping[int, NDArray[np.floating[Any]]]) -> None:
        """``first_row`` (V + 1,) as in an index; ``videos`` by number in the index. Rows of other videos raise
        KeyError."""
        self.first_row, self.videos = first_row, videos
        self.dtype = np.result_type(*(values.dtype for values in videos.values()))
        self.width: int = next(iter(videos.values())).shape[1]

    def __len__(self) -> int:
        return int(self.first_row[-1])

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[np.floating[Any]]:
        if isinstance(rows, slice):
            video = int(np.searchsorted(self.first_row, rows.start, "right")) - 1
            first = int(self.first_row[video])
            return self.videos[video][rows.start - first : rows.stop - first]
        flat = rows.ravel()
        video_of = np.searchsorted(self.first_row, flat, "right") - 1
        local = flat - self.first_row[video_of]
        values = np.empty((len(flat), self.width), self.dtype)
        # The shots of a window are of one video and follow each other: few pieces, each copied at once.
        edges = np.flatnonzero(np.diff(video_of, prepend=-2, append=-2))
        for start, end in pairwise(edges.tolist()):
            values[start:end] = self.videos[int(video_of[start])][local[start:end]]
        return values.reshape(*rows.shape, self.width)
