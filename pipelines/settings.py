"""Settings that several stages have in common: each option is declared, described and checked once. Imports nothing
heavy."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from annotated_doc import Doc

from pipelines.files import STDIO
from pipelines.options import Seconds, Settings, advanced, check_at_least, check_range

Detector = Literal["transitions", "adaptive", "content", "histogram", "hash", "threshold", "transnetv2"]
DETECTOR_NAMES: tuple[str, ...] = get_args(Detector)
Precision = Literal["auto", "float32", "float64", "bf16", "fp16"]
LARGEST_RATE = 1e30  # float32 has no room for much larger steps
LARGEST_SEED = 10**18 - 1  # fits a generator of torch, and the name of a model of a seed


@dataclass(frozen=True)
class Reading(Settings):
    """Shot detection and the part of the video to read."""

    heading = "Reading the video"
    detector: Annotated[
        Detector | None,
        Doc("""Shot detector: transitions finds cuts, dissolves, fades and wipes; transnetv2 is a network, slow on a
        CPU; the others are PySceneDetect's. Default: transitions."""),
    ] = None
    detector_threshold: Annotated[float | None, Doc("Lower it to get more shots. Default: the detector's own.")] = None
    min_shot: Annotated[Seconds | None, Doc("Shortest shot. Default: 0.6 seconds; any length with transnetv2.")] = None
    shots: Annotated[Path | None, Doc("Shots or cuts, in frames, seconds or timecodes, instead of a detector.")] = None
    subtitles: Annotated[Path | None, Doc("Subtitles (SRT, WebVTT, ASS). Default: beside the video, or in it.")] = None
    subtitle_encoding: Annotated[str | None, Doc("Such as cp1251 or gbk. Default: detected.")] = advanced(None)
    silence: Annotated[bool, Doc("Also find silence: a second or more below -60 dB in the first sound track.")] = False
    start: Annotated[Seconds | None, Doc("Start of the part to read (seconds or timecode). Default: 0.")] = None
    end: Annotated[Seconds | None, Doc("End of the part. Default: the end.")] = None
    duration: Annotated[Seconds | None, Doc("Length of the part, instead of its end.")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.detector_threshold is not None and not 0 < self.detector_threshold < math.inf:
            raise ValueError(f"the threshold of a shot detector must be above 0, not {self.detector_threshold:g}")
        if STDIO in (self.shots, self.subtitles):
            raise ValueError("shots and subtitles are read from files, not from stdin")
        if self.subtitle_encoding is not None:
            try:
                "".encode(self.subtitle_encoding)
            except (LookupError, ValueError) as error:
                raise ValueError(f"unknown encoding {self.subtitle_encoding!r}; such as cp1251 or utf-16") from error
        if self.end is not None and self.duration is not None:
            raise ValueError("set the end or the duration of the part to read, not both")
        start, end = self.part
        if end is not None and end <= (start or 0.0):
            raise ValueError(f"the part to read ends at {end:g} s, but it begins at {start or 0.0:g} s")

    @property
    def part(self) -> tuple[float | None, float | None]:
        """Return start and end of the part that is read, in seconds; None is the start or end of the video."""
        end = self.end if self.duration is None else (self.start or 0.0) + self.duration
        return self.start or None, end


@dataclass(frozen=True)
class Grouping(Settings):
    """Grouping of shots into scenes, by their scores."""

    heading = "Scenes"
    threshold: Annotated[
        float | None, Doc("Shots scoring at least this end a scene. Lower it to get more scenes. Default: 0.5.")
    ] = None
    min_scene: Annotated[Seconds | None, Doc("Shortest scene (seconds or timecode). Default: 0.")] = None
    max_scene: Annotated[Seconds | None, Doc("Longest scene; one shot may be longer. Default: 0, any length.")] = None
    drop_short: Annotated[bool, Doc("Leave out shorter scenes instead of joining them to others.")] = False
    scenes: Annotated[int | None, Doc("Number of scenes: the most probable ones, whatever the threshold.")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threshold is not None and not 0.0 < self.threshold < 1.0:
            raise ValueError(f"the threshold must be above 0 and below 1, not {self.threshold:g}")
        check_at_least(self, 1, "scenes")
        if self.min_scene and self.max_scene and self.min_scene > self.max_scene:
            lengths = f"the shortest scene, {self.min_scene:g} s, is longer than the longest, {self.max_scene:g} s"
            raise ValueError(f"{lengths}; change `min_scene` or `max_scene`")

    def resolved(self, before: Mapping[str, Any] = {}) -> dict[str, Any]:
        """Return all values: of these settings, else ``before``, else the defaults. Raises ValueError for misfits."""
        defaults = {"threshold": 0.5, "min_scene": 0.0, "max_scene": 0.0, "drop_short": False, "scenes": None}
        stored = {name: before[name] for name in defaults if before.get(name) is not None}
        values = vars(Grouping(**{**defaults, **stored, **self.given}))
        if self.drop_short and not values["min_scene"]:
            raise ValueError("`drop_short` leaves out scenes that are shorter than `min_scene`; use both")
        return values

    @property
    def given(self) -> dict[str, Any]:
        """Return the values that were set."""
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}


GROUPING = tuple(one.name for one in fields(Grouping))
VIDEO_OPTIONS = (*(one.name for one in fields(Reading)), *GROUPING)  # may differ from video to video


@dataclass(frozen=True)
class OutputSettings(Settings):
    """Output of a stage."""

    heading = "Output"
    output: Annotated[Path | None, Doc("File or folder to write.")] = None
    overwrite: Annotated[bool, Doc("Replace existing results.")] = False


@dataclass(frozen=True)
class ScenesOutput(OutputSettings):
    """Output of scenes, and what they may replace."""

    output: Annotated[Path | None, Doc("File to write, - for stdout; or a folder, for several inputs too.")] = None
    overwrite: Annotated[bool, Doc("Replace existing results, even of another video, but not corrections.")] = False
    discard_corrections: Annotated[bool, Doc("Also replace scenes that were corrected by hand.")] = False


@dataclass(frozen=True)
class RunSettings(OutputSettings):
    """Output of a stage that can be resumed, and its seed and log."""

    output: Annotated[Path, Doc("File or folder to write.")] = Path("runs")
    resume: Annotated[bool, Doc("Continue the run in the output folder; start one if there is none.")] = False
    seed: Annotated[int, Doc("Seed of the random draws; with several training runs, the first one's.")] = 0
    deterministic: Annotated[bool, Doc("On a GPU use only repeatable algorithms; slower.")] = advanced(False)
    log_steps: Annotated[int, Doc("Steps from one row of the log to the next.")] = advanced(10)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_names_file(self.output)
        check_range(self, 0, LARGEST_SEED, "seed")
        check_at_least(self, 1, "log_steps")
        if self.resume and self.overwrite:
            raise ValueError("a run can be resumed or overwritten, not both")


def check_names_file(output: Path) -> None:
    """Raise ValueError for an output that is stdout."""
    if output == STDIO:
        raise ValueError("-: this cannot be written to stdout; name a file or folder with `output`")


ONLY_TRAINING = ("resume", "seed", "deterministic", "log_steps")  # of `RunSettings`


@dataclass(frozen=True)
class Parallel(Settings):
    """Processing of several videos at a time."""

    heading = "Many videos"
    jobs: Annotated[int | None, Doc("Videos at a time. Default: as many as cores and memory allow.")] = None
    dask: Annotated[str | None, Doc("Address of a Dask scheduler; workers must see this folder and all files.")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "jobs")


@dataclass(frozen=True)
class Matching(Settings):
    """Reading true scenes, and matching them with shots and predictions."""

    heading = "True scenes"
    truth: Annotated[Path | None, Doc("True scenes that `bassl score` can read, or a folder with this video's.")] = None
    tolerance: Annotated[Seconds, Doc("Most seconds from a true scene end to a shot end, if shots differ.")] = 1.0
    within: Annotated[Seconds, Doc("Most seconds between a true and a predicted boundary.")] = 3.0
    frame_rate: Annotated[float | None, Doc("Frames per second, for files that have only frame numbers.")] = None
    annotator: Annotated[int, Doc("Number of the BBC annotator whose labels are read.")] = 0
    doubtful: Annotated[
        Literal["end", "ignore"],
        Doc("MovieNet's label -1: a scene end, as in the release, or left out of training and of most metrics."),
    ] = "end"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frame_rate is not None and not 0 < self.frame_rate <= 1000:
            raise ValueError(f"{self.frame_rate:g} is not a number of frames per second")


@dataclass(frozen=True)
class Resampling(Settings):
    """Confidence intervals by bootstrap over videos."""

    resamples: Annotated[int, Doc("Bootstrap resamples; 0 disables intervals.")] = 1000
    seed: Annotated[int, Doc("Seed of the bootstrap.")] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 0, "seed")
        check_range(self, 0, 100_000, "resamples")


@dataclass(frozen=True)
class Compute(Settings):
    """Device, workers and precision."""

    heading = "Model and device"
    device: Annotated[str, Doc("Device for PyTorch: auto, cpu, cuda or cuda:1; ONNX encoders run on the CPU.")] = "auto"
    workers: Annotated[int | None, Doc("Threads that read keyframes, for each process of a job.")] = None
    precision: Annotated[Precision, Doc("Training precision; auto: float32; on a GPU bf16 or fp16.")] = advanced("auto")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 0, "workers")
        if re.fullmatch(r"auto|cpu|(cuda|mps|xpu)(:\d+)?", self.device) is None:
            raise ValueError(f"unknown device {self.device!r}; choose auto, cpu, cuda or a numbered GPU such as cuda:1")


@dataclass(frozen=True)
class Indexed(Settings):
    """Videos of an index."""

    index: Annotated[Path, Doc("Index of the videos: shots, keyframes, labels and splits.")] = Path("data/index.h5")


@dataclass(frozen=True)
class TrainingData(Indexed):
    """Features of an index to learn from."""

    features: Annotated[tuple[Path, ...], Doc("Feature stores of one encoder. Default: the index's, or computed.")] = ()
    splits: Annotated[tuple[str, ...], Doc("Splits to learn from, such as train,val. Default: all videos.")] = ()


@dataclass(frozen=True)
class ScoredData(Indexed):
    """Features of an index for a model to read."""

    features: Annotated[Path, Doc("The encoder's feature store, or the folder it is in.")] = Path("data/features")


@dataclass(frozen=True)
class SceneSelection(Settings):
    """What to take from a ``scenes.json``."""

    video: Annotated[Path | None, Doc("The video. Default: at the path in the scenes.json.")] = None
    shots: Annotated[bool, Doc("Take the shots instead of the scenes.")] = False
    skip_credits: Annotated[bool, Doc("Leave out credits, intros, outros and recaps at the ends of scenes.")] = False
