"""A video in, its scenes out: shots, key-frames, encodings, scores and scenes in one pass, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pipelines
from pipelines.scenes import SceneList, Shot, group_shots

if TYPE_CHECKING:  # the real imports stand where they are used: `bassl --help` must not wait for FFmpeg or torch
    import numpy as np
    from numpy.typing import NDArray

    from pipelines.video.shots import FilmedShot

Item = TypeVar("Item")

Progress = Callable[[str, float, float | None], None]
"""Called with what is being done, how much of it is done, and how much there is in all (None: not known)."""


@dataclass(frozen=True)
class PredictSettings:
    """Everything that decides what scenes are found."""

    detector: str = "adaptive"
    """Shot detector: adaptive, content, histogram, hash, threshold or transnetv2."""
    shots: Path | None = None
    """A file of shots or cuts to use instead of a detector."""
    encoder: str = "efficientnet_lite0"
    """Shot encoder: efficientnet_lite0, resnet50 or timm:NAME."""
    model: Path | None = None
    """A relational model to score with; None is the one in the package."""
    threshold: float = 0.5
    """A shot with at least this score ends a scene."""
    min_scene: float = 0.0
    """No scene is shorter than this, in seconds."""
    scenes: int | None = None
    """Exactly this many scenes, whatever the threshold."""
    device: str = "auto"
    """Where the encoder runs: auto, cpu, cuda, ..."""


def predict(
    video: Path | str,
    settings: PredictSettings = PredictSettings(),
    progress: Progress | None = None,
    on_shot: Callable[[FilmedShot], None] | None = None,
) -> SceneList:
    """Find the scenes of a video.

    Args:
        video: any file that FFmpeg's libraries read.
        settings: how; the defaults need neither network nor GPU.
        progress: told how far the film has been read, in seconds.
        on_shot: given each shot with its key-frames as it is found, for a storyboard.

    Returns:
        shots with scores, and the scenes that they make.

    Raises:
        BasslError: one line, for a video, model, shot list or setting that cannot be used.

    Example::

        from pipelines import predict

        result = predict("movie.mp4")
        for scene in result.scenes:
            print(scene.start_timecode, scene.end_timecode, scene.confidence)
        result.save("scenes.json")
    """
    from pipelines.grouping import check_choice
    from pipelines.video.process import FilmProcess
    from pipelines.video.shots import ReaderSettings

    check_choice(settings.threshold, settings.min_scene, settings.scenes)
    tell = progress or (lambda stage, done, total: None)
    reading = FilmProcess(
        Path(video),
        ReaderSettings(detector=settings.detector, shots=settings.shots),
        lambda done, total: tell("reading", done, total),
    )
    with reading:  # from here on the film is read in its own process, while this one imports torch and encodes
        import numpy as np

        from pipelines.grouping import choose_scene_ends
        from pipelines.models.encoders import half_of_the_cores, load_encoder
        from pipelines.models.relational import load_scorer

        scorer = load_scorer(settings.model)
        encoder = load_encoder(settings.encoder, settings.device)
        ranges: list[tuple[int, int, float, float]] = []
        features: list[NDArray[np.float32]] = []
        with half_of_the_cores():
            for pair in batched(reading, 2):  # two shots are a batch that a core's caches hold
                features.append(encoder.encode([[encoder.prepare(p) for p in shot.keyframes] for shot in pair]))
                for shot in pair:
                    ranges.append((shot.start_frame, shot.end_frame, shot.start, shot.end))
                    if on_shot is not None:
                        on_shot(shot)
    tell("scoring", 0.0, None)
    ends_of_shots = np.array([end for *_, end in ranges])
    durations = np.array([end - start for *_, start, end in ranges])
    scores = scorer.score(np.concatenate(features), durations)
    shots = tuple(Shot(i, *r, score=float(p)) for i, (r, p) in enumerate(zip(ranges, scores, strict=True)))
    chosen = choose_scene_ends(scores, ends_of_shots, settings.threshold, settings.min_scene, settings.scenes)
    used = {"device": str(encoder.device), "precision": str(encoder.dtype).removeprefix("torch.")}
    return SceneList(
        video=reading.facts,
        settings=_record(settings) | used,
        shots=shots,
        scenes=group_shots(shots, chosen),
        warnings=tuple(reading.warnings),
    )


def batched(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Tuples of ``size`` items, the last perhaps shorter (``itertools.batched`` of Python 3.12)."""
    rest = iter(items)
    while batch := tuple(islice(rest, size)):
        yield batch


def _record(settings: PredictSettings) -> dict[str, Any]:
    named = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(settings).items()}
    if settings.shots is not None:
        named["detector"] = None
    return {"bassl": pipelines.__version__, **named}
