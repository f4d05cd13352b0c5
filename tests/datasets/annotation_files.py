"""Small annotation files of several formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.scenes import SceneData, Shot, VideoFacts, group_shots, timecode

BBC_SHOTS = "0\t9\n10\t19\n25\t39\n40\t49\n"
OVSD_SHOTS = "0 99\n100 199\n201 299\n300 399\n"


def put_bbc(root: Path, shots: str, scenes: str, name: str = "bbc_01", annotator: int = 0) -> Path:
    for folder, text in (("shots", shots), (f"scenes/annotator_{annotator}", scenes)):
        file = root / "annotations" / folder / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, newline="")
    return root


def put_ovsd(root: Path, scenes: str, shots: str | None = OVSD_SHOTS, name: str = "02") -> Path:
    (root / f"{name}_scenes.txt").write_text(scenes, newline="")
    if shots is not None:
        (root / f"{name}_shots.txt").write_text(shots, newline="")
    return root


def put_chapters(path: Path, *starts: float) -> Path:
    """Chapters of a Matroska file that have a start, in seconds, and no end."""
    atoms = [f"<ChapterTimeStart>{timecode(start)}</ChapterTimeStart>" for start in starts]
    listed = "".join(f"<ChapterAtom>{atom}</ChapterAtom>" for atom in atoms)
    path.write_text(f"<Chapters><EditionEntry>{listed}</EditionEntry></Chapters>")
    return path


def put_npz(folder: Path | str, name: str = "01", size: int = 4, **changes: Any) -> Path:
    """Features, shots and scene ends of a video of three shots; arrays that are None are left out."""
    path = Path(folder, f"{name}.npz")
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        "features": np.arange(3 * size, dtype=np.float16).reshape(3, size) + len(name),
        "shots": np.array([[0, 10], [10, 25], [30, 31]], np.int64),
        "scene_end": np.array([0, 1, 0], np.uint8),
        **changes,
    }
    np.savez_compressed(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def scenes_json(ends: tuple[int, ...] = (2, 5), path: str = "movies/video.mp4") -> dict[str, Any]:
    """A scenes.json of five shots of 50 frames at 25 frames per second; scenes end before the shots ``ends``."""
    shots = tuple(Shot(i, 50 * i, 50 * i + 50, 2.0 * i, 2.0 * i + 2, 0.5) for i in range(5))
    scenes = group_shots(shots, [end - 1 for end in ends])
    return SceneData(VideoFacts(path, 4, 3, 10.0, 250, 25.0), {}, shots, scenes).to_dict()


ABSENT = object()


def changed(content: Any, keys: Sequence[Any], value: object) -> Any:
    """A copy of JSON with another value at a place, or without it."""
    content = json.loads(json.dumps(content))
    *parents, last = keys
    parent = reduce(getitem, parents, content)
    if value is ABSENT:
        del parent[last]
    else:
        parent[last] = value
    return content
