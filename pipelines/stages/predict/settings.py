"""Settings of prediction: which model, and which scenes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from pipelines.files import STDIO
from pipelines.models.encoder_options import EncoderOptions, check_device, check_encoder
from pipelines.options import RARE, Seconds, accept_text
from pipelines.video.shots import DETECTOR_NAMES, check_detector, part_of


@dataclass(frozen=True)
class PredictSettings:
    """Everything that determines which scenes are found.

    Raises:
        ValueError: one line, for values that no video can satisfy.
    """

    detector: str | None = None
    """Shot detector: transitions (cuts, dissolves, fades and wipes); adaptive (cuts), content, histogram, hash and
    threshold, all PySceneDetect's; transnetv2, a network that reads 60 to 120 frames per second on two cores.
    Unless given: the model's own, or transitions.

    The model's own is the one that its keyframes were made with.
    """
    detector_threshold: float | None = None
    """Threshold of the shot detector, in its own unit; a lower one gives more shots. Unless given: its own."""
    min_shot: Seconds | None = None
    """Shortest shot that a detector finds, in seconds or as a timecode. Unless given: 0.6; with transnetv2 any."""
    shots: Path | None = None
    """A file of shots or cuts to use instead of a detector, in frames, seconds or timecodes."""
    encoder: str | None = None
    """Shot encoder: efficientnet_lite0; an ONNX file of an image network; resnet50 or timm:NAME, which download
    weights; or a pre-trained run. Unless given: the model's own, or efficientnet_lite0."""
    model: Path | None = None
    """A fine-tuned run or model file. Unless given: the built-in model."""
    threshold: float = 0.5
    """A shot with at least this score ends a scene; a lower one gives more scenes."""
    min_scene: Seconds = 0.0
    """Shortest scene, in seconds or as a timecode (HH:MM:SS)."""
    drop_short: bool = False
    """Leave out shorter scenes, instead of joining them to others."""
    scenes: int | None = None
    """Number of scenes: the most probable ones, whatever the threshold."""
    start: Seconds | None = None
    """Start of the part of the video to read, in seconds or as a timecode. Unless given: the beginning."""
    end: Seconds | None = None
    """End of the part. Unless given: the end."""
    duration: Seconds | None = None
    """Length of the part, instead of its end."""
    device: str = "auto"
    """Where an encoder of torch runs: auto, cpu, cuda, ...; ONNX encoders run on the CPU."""
    encoder_options: EncoderOptions = field(default_factory=EncoderOptions, metadata=RARE)
    """For an ONNX file, what its metadata do not say."""

    def __post_init__(self) -> None:
        accept_text(self)
        _ = self.part  # raises ValueError for an impossible one
        object.__setattr__(self, "encoder", None if self.encoder is None else str(self.encoder))
        if self.encoder is not None:
            check_encoder(self.encoder)
        check_device(self.device)
        detector = DETECTOR_NAMES[0] if self.detector is None else self.detector
        check_detector(detector, self.detector_threshold, self.min_shot)
        if self.shots == STDIO:
            raise ValueError("a list of shots is read from a file, not from stdin")
        if not 0.0 < self.threshold < 1.0:
            raise ValueError(f"the threshold must lie between 0 and 1, not {self.threshold:g}")
        if not (math.isfinite(self.min_scene) and self.min_scene >= 0.0):
            raise ValueError(f"the minimum length of a scene must be 0 seconds or more, not {self.min_scene:g}")
        if self.scenes is not None and self.scenes < 1:
            raise ValueError(f"the number of scenes must be 1 or more, not {self.scenes}")

    @property
    def part(self) -> tuple[float | None, float | None]:
        """Where the part that is read begins and ends, in seconds; None is the video's beginning or end."""
        return part_of(self.start, self.end, self.duration)


class VideoOptions(TypedDict, total=False):
    """The settings that may differ from video to video with one loaded model."""

    detector: str | None
    detector_threshold: float | None
    min_shot: float | str | None
    shots: Path | str | None
    threshold: float
    min_scene: float | str
    drop_short: bool
    scenes: int | None
    start: float | str | None
    end: float | str | None
    duration: float | str | None


class PredictOptions(VideoOptions, total=False):
    """All settings, as keyword arguments."""

    encoder: str | Path | None
    encoder_options: EncoderOptions
    model: Path | str | None
    device: str
