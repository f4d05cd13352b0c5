"""Pages for tests: a video, its shots as the reader finds them with scores of our own, their pictures, and a parser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.models.scenes import choose_scene_ends
from pipelines.outputs.images import ShotImages
from pipelines.scenes import SceneData, Shot, VideoFacts, group_shots
from pipelines.video.reader import VideoReader
from pipelines.video.shots import KeyframedShot, ReaderSettings
from tests import videos

CUTS = (12, 30, 41, 60, 78, 90, 103)
SCORES = (0.2, 0.9, 0.35, 0.6, 0.7, 0.1, 0.55, 0.95)
"""Of the eight shots between the cuts; the last ends the video, whatever its score."""
HOSTILE = "</script><!--<img src=x onerror=\"harm()\">&amp; 'name'\u2028\ud800"
"""A name that would run as code if it were not escaped."""


class Elements(HTMLParser):
    """All elements with their attributes, and the text of those that hold data or code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.found.append((tag, attributes))
        self._inside = attributes.get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        self.texts[self._inside] = self.texts.get(self._inside, "") + data


def grouped(
    shots: Sequence[Shot],
    facts: VideoFacts,
    threshold: float = 0.5,
    min_scene: float = 0.0,
    max_scene: float = 0.0,
    **settings: object,
) -> SceneData:
    """The scenes that `bassl predict` makes of scored shots."""
    scores, ends = np.array([shot.score for shot in shots]), np.array([shot.end for shot in shots])
    chosen = choose_scene_ends(scores, ends, threshold, min_scene, max_scene or math.inf)
    lengths = {"min_scene": min_scene, "max_scene": max_scene}
    told = {"bassl": "0.1.0", "threshold": threshold, **lengths, "scenes": None, **settings}
    return SceneData(facts, told, tuple(shots), group_shots(shots, chosen))


def thumbnail(image: NDArray[np.uint8]) -> bytes:
    """The small image of a shot."""
    images = ShotImages()
    images.add(KeyframedShot(0, 0, 1, 0.0, 1.0, (image,), (0,)))
    return images[0]


def rendered(
    path: Path, rate: float = 24, times: Sequence[float] | None = None, sound_seconds: float = 0.0
) -> tuple[SceneData, list[bytes]]:
    """Write a video of five seconds in eight shots; its scenes, and a picture of each shot."""
    videos.write_video(path, videos.images(120, CUTS, 320, 180), rate, times=times, sound_seconds=sound_seconds)
    cuts = path.with_suffix(".cuts")
    cuts.write_text("".join(f"{cut}\n" for cut in CUTS))
    reader = VideoReader(path, ReaderSettings(shots=cuts, keyframes=1))
    found = list(reader)
    cuts.unlink()
    shots = [
        Shot(s.index, s.start_frame, s.end_frame, s.start, s.end, score) for s, score in zip(found, SCORES, strict=True)
    ]
    return grouped(shots, reader.facts), [thumbnail(shot.keyframes[0]) for shot in found]


def invented(shots: int, seed: int = 0, name: str = "long.mp4") -> SceneData:
    """A video that does not exist, of shots of a few seconds."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], rng.integers(20, 150, shots).cumsum()]).tolist()
    listed = [
        Shot(i, starts[i], starts[i + 1], starts[i] / 24, starts[i + 1] / 24, round(float(score), 4))
        for i, score in enumerate(rng.beta(0.7, 3.0, shots))
    ]
    return grouped(listed, VideoFacts(name, 320, 180, starts[-1] / 24, starts[-1], 24.0))


def noise(count: int, width: int = 64, height: int = 36) -> list[bytes]:
    """Pictures that no codec makes small, of which no two are the same."""
    rng = np.random.default_rng(0)
    return [thumbnail(rng.integers(0, 256, (height, width, 3), np.uint8)) for _ in range(count)]
