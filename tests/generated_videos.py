"""Generated videos as keyframe stores and an index with their true labels, without a video being encoded."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pipelines.datasets.synthetic import SyntheticVideoSettings, plan_video, render_keyframes
from pipelines.stages.build_index import build_index
from tests.labeled_videos import write_relabeled
from tests.small_stores import put_store


def write_generated_videos(folder: Path, splits: Mapping[int, str], **video: Any) -> Path:
    """An index of the videos with these seeds, ``index.h5``, each in its split; the settings of a video are
    ``video``."""
    ends: list[bool] = []
    for seed in sorted(splits):
        planned = plan_video(SyntheticVideoSettings(seed=seed, **{"width": 96, "height": 54, "dissolves": 0} | video))
        jpegs = [[_jpeg(picture) for picture in shot] for shot in render_keyframes(planned)]
        put_store(folder / "stores" / f"video{seed:03}.h5", len(jpegs), 3, jpegs=jpegs)
        ends += [one != other for one, other in pairwise(planned.scene_of_shot)] + [False]
    build_index([folder / "stores"], output=folder / "plain.h5")
    labels = np.array(ends, np.int8)
    return write_relabeled(folder / "plain.h5", folder / "index.h5", labels, [splits[seed] for seed in sorted(splits)])


def _jpeg(picture: Any) -> bytes:
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG")
    return buffer.getvalue()
