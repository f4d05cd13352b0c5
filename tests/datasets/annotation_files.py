"""Small annotation files of several formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipelines.scenes import timecode

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
    """A scenes.json of five shots of 50 frames at 25 frames per second."""

    def timed(start: int, end: int) -> dict[str, Any]:
        return {"start_frame": start, "end_frame": end, "start": start / 25, "end": end / 25}

    firsts = (0, *ends[:-1])
    return {
        "schema": "bassl.scenes",
        "version": 1,
        "video": {"path": path, "width": 4, "height": 3, "duration": 10.0, "frames": 250, "frame_rate": 25.0},
        "settings": {},
        "shots": [{"index": i, **timed(50 * i, 50 * i + 50), "score": 0.5} for i in range(5)],
        "scenes": [
            {"index": m, "start_shot": first, "end_shot": end, **timed(50 * first, 50 * end), "confidence": 0.5}
            for m, (first, end) in enumerate(zip(firsts, ends, strict=True))
        ],
    }
