"""Small files in the layout of MovieNet: shot lists, labels, splits, annotation lists, keyframes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.small_stores import jpeg

VIDEO = "tt0047396"
SHOTS = [(0, 48), (49, 329), (330, 340), (341, 400), (401, 499)]


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def put_shots(root: Path, video: str = VIDEO, shots: Sequence[tuple[int, int]] = SHOTS) -> Path:
    quarters = [[first + (last - first) * q // 4 for q in (1, 2, 3)] for first, last in shots]
    lines = [f"{first} {last} {a} {b} {c}\n" for (first, last), (a, b, c) in zip(shots, quarters, strict=True)]
    return put(root / "scene318" / "shot_movie318" / f"{video}.txt", "".join(lines))


def put_labels(root: Path, labels: Sequence[int], video: str = VIDEO, first: int = 0) -> Path:
    lines = [f"{shot:04d} {label}\n" for shot, label in enumerate(labels, first)]
    return put(root / "scene318" / "label318" / f"{video}.txt", "".join(lines))


def put_split(root: Path, **splits: list[str]) -> Path:
    content = {"train": [], "val": [], "test": [], **splits}
    return put(root / "scene318" / "meta" / "split318.json", json.dumps(content))


def put_list(root: Path, part: str, labels: Sequence[Any], video: str = VIDEO, num_shot: int | None = None) -> Path:
    lines = [
        {"video_id": video, "shot_id": f"{shot:04d}", "num_shot": num_shot or len(labels), "boundary_label": label}
        | {"invideo_scene_id": 0, "global_scene_id": 0, "global_video_id": 0}
        for shot, label in enumerate(labels)
    ]
    return put(root / "anno" / f"anno.{part}.ndjson", "".join(json.dumps(line) + "\n" for line in lines))


def put_keyframes(root: Path, video: str = VIDEO, shots: int = 5, images: int = 3, seed: int | None = None) -> Path:
    """The keyframes of a video, ``jpeg(seed, shot, image)``; empty files without a seed."""
    folder = root / "240P_frames" / video
    folder.mkdir(parents=True)
    for shot in range(shots):
        for image in range(images):
            content = b"" if seed is None else jpeg(seed, shot, image)
            (folder / f"shot_{shot:04d}_img_{image}.jpg").write_bytes(content)
    return folder


def put_movienet(root: Path) -> Path:
    """Two labeled videos and one with keyframes only."""
    for seed, video in enumerate(("tt01", "tt02")):
        put_shots(root, video, [(0, 48), (49, 329), (330, 499)])
        put_keyframes(root, video, 3, seed=seed)
    put_labels(root, [1, -1], "tt01")
    put_labels(root, [0, 1], "tt02")
    put_keyframes(root, "tt03", 2, seed=2)
    put_split(root, train=["tt01", "tt99"], test=["tt02"])
    return root
