"""Settings that several stages have in common: each option is declared, described and checked once. Imports nothing
heavy."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_doc import Doc

from pipelines.files import STDIO
from pipelines.options import Seconds, Settings, advanced, check_at_least

DETECTOR_NAMES = ("transitions", "adaptive", "content", "histogram", "hash", "threshold", "transnetv2")
"""The detectors of :func:`pipelines.video.detectors.make_detector`."""
Precision = Literal["auto", "float32", "float64", "bf16", "fp16"]
Logger = Literal["tensorboard", "wandb"]
LARGEST_SEED = 10**18 - 1  # fits a generator of torch, and the name of a model of a seed


@dataclass(frozen=True)
class Reading(Settings):
    """How a video is cut into shots, and what is read of it."""

    detector: Annotated[
        str | None,
        Doc("""Shot detector: transitions (cuts, dissolves, fades and wipes); adaptive (cuts), content, histogram,
        hash and threshold, all PySceneDetect's; transnetv2, a network that reads 60 to 120 frames per second on
        two cores. Default: transitions."""),
    ] = None
    detector_threshold: Annotated[
        float | None,
        Doc("""Threshold of the shot detector, in its own unit; a lower one gives more shots. Default: the
        detector's own."""),
    ] = None
    min_shot: Annotated[
        Seconds | None,
        Doc("Shortest shot that a detector finds, in seconds or as a timecode. Default: 0.6; with transnetv2 any."),
    ] = None
    shots: Annotated[
        Path | None, Doc("A file of shots or cuts to use instead of a detector, in frames, seconds or timecodes.")
    ] = None
    subtitles: Annotated[
        Path | None,
        Doc("""A file of subtitles (SRT, WebVTT, ASS), for the text of scenes. Default: the file beside the video,
        such as movie.srt or movie.en.srt, or else the video's own text track."""),
    ] = None
    silence: Annotated[
        bool, Doc("Also find silence: a second or more below -60 dB in the first sound track, which is decoded for it.")
    ] = False
    speech: Annotated[
        bool,
        Doc("""Also use when people speak, by the times of subtitles: scores rise in pauses and where dialogue
        begins or ends, and fall inside utterances. What this gains was measured in a simulation only."""),
    ] = advanced(False)
    start: Annotated[
        Seconds | None,
        Doc("Start of the part of the video to read, in seconds or as a timecode. Default: the beginning."),
    ] = None
    end: Annotated[Seconds | None, Doc("End of the part. Default: the end.")] = None
    duration: Annotated[Seconds | None, Doc("Length of the part, instead of its end.")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.detector not in (None, *DETECTOR_NAMES):
            raise ValueError(f"unknown shot detector {self.detector!r}; choose from {', '.join(DETECTOR_NAMES)}")
        check_at_least(self, 0, "min_shot", "start", "end", "duration")
        if self.detector_threshold is not None and not 0 < self.detector_threshold < math.inf:
            raise ValueError(f"the threshold of a shot detector must be above 0, not {self.detector_threshold:g}")
        if self.shots == STDIO:
            raise ValueError("a list of shots is read from a file, not from stdin")
        if self.subtitles == STDIO:
            raise ValueError("subtitles are read from a file, not from stdin")
        if self.end is not None and self.duration is not None:
            raise ValueError("give the end or the duration of the part to read, not both")
        start, end = self.part
        if end is not None and end <= (start or 0.0):
            raise ValueError(f"the part to read ends at {end:g} s, but it begins at {start or 0.0:g} s")

    @property
    def part(self) -> tuple[float | None, float | None]:
        """Start and end of the part that is read, in seconds; None is the start or end of the video."""
        end = self.end if self.duration is None else (self.start or 0.0) + self.duration
        return self.start or None, end


@dataclass(frozen=True)
class Grouping(Settings):
    """Which scenes the scores of a video's shots make."""

    threshold: Annotated[
        float | None, Doc("A shot with at least this score ends a scene; a lower one gives more scenes. Default: 0.5.")
    ] = None
    min_scene: Annotated[Seconds | None, Doc("Shortest scene, in seconds or as a timecode (HH:MM:SS). Default: 0.")] = (
        None
    )
    max_scene: Annotated[
        Seconds | None,
        Doc("""Longest scene, in seconds or as a timecode; only a scene of one shot may be longer. Default: 0, any
        length."""),
    ] = None
    drop_short: Annotated[bool | None, Doc("Leave out shorter scenes, instead of joining them to others.")] = None
    scenes: Annotated[int | None, Doc("Number of scenes: the most probable ones, whatever the threshold.")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threshold is not None and not 0.0 < self.threshold < 1.0:
            raise ValueError(f"the threshold must lie between 0 and 1, not {self.threshold:g}")
        check_at_least(self, 0, "min_scene", "max_scene")
        check_at_least(self, 1, "scenes")
        if self.min_scene and self.max_scene and self.min_scene > self.max_scene:
            lengths = f"the shortest scene, {self.min_scene:g} s, is longer than the longest, {self.max_scene:g} s"
            raise ValueError(f"{lengths}; change `min_scene` or `max_scene`")

    def resolved(self, before: Mapping[str, Any] = {}) -> dict[str, Any]:
        """All values by name: these settings, else those in ``before``, else the defaults; ``scenes`` may be None."""
        defaults = {"threshold": 0.5, "min_scene": 0.0, "max_scene": 0.0, "drop_short": False, "scenes": None}
        own = {name: value for name, value in vars(self).items() if value is not None}
        return vars(Grouping(**{**defaults, **{name: before[name] for name in defaults if name in before}, **own}))


GROUPING = tuple(one.name for one in fields(Grouping))
VIDEO_OPTIONS = (*(one.name for one in fields(Reading)), *GROUPING)
"""Options that may differ from video to video with one loaded model."""


@dataclass(frozen=True)
class OutputSettings(Settings):
    """Where a result is written."""

    output: Annotated[Path | None, Doc("File to write, - for stdout; or a folder, for several inputs too.")] = None
    overwrite: Annotated[bool, Doc("Replace existing results.")] = False


@dataclass(frozen=True)
class ScenesOutput(OutputSettings):
    """Where scenes are written, and what they may replace."""

    overwrite: Annotated[
        bool, Doc("Replace existing results, also scenes of another video; scenes that were corrected by hand stay.")
    ] = False
    discard_corrections: Annotated[bool, Doc("Replace also scenes that were corrected by hand.")] = False


@dataclass(frozen=True)
class RunSettings(OutputSettings):
    """Where a stage keeps its result, and how it starts."""

    output: Annotated[Path, Doc("File or folder to write.")] = Path("runs")
    resume: Annotated[bool, Doc("Continue the run in the output folder; start one if there is none.")] = False
    seed: Annotated[int, Doc("Seed of the random draws; with several training runs, the first one's.")] = 0
    log_steps: Annotated[int, Doc("Steps from one row of the log to the next.")] = advanced(10)
    logger: Annotated[
        Logger,
        Doc("""Where the curves of the log go too: tensorboard, files in the output folder; or wandb, Weights &
        Biases, if its package is installed."""),
    ] = advanced("tensorboard")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 0, "seed")
        if self.logger == "wandb" and find_spec("wandb") is None:
            raise ValueError("logger=wandb needs wandb, which is not installed: pip install wandb")
        check_at_least(self, 1, "log_steps")
        if self.seed > LARGEST_SEED:
            raise ValueError(f"seed must be at most {LARGEST_SEED}, not {self.seed}")
        if self.resume and self.overwrite:
            raise ValueError("a run can be resumed or overwritten, not both")


ONLY_TRAINING = ("resume", "seed", "log_steps", "logger")
"""Options of `RunSettings` that a stage without random draws does not have."""


@dataclass(frozen=True)
class Parallel(Settings):
    """How several videos are processed at a time."""

    jobs: Annotated[int | None, Doc("Videos at a time. Default: as many as cores and memory allow.")] = None
    dask: Annotated[
        str | None, Doc("Address of a Dask scheduler whose workers process the videos; they must see the same files.")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "jobs")


@dataclass(frozen=True)
class Matching(Settings):
    """How true scenes are read, and matched with shots and predictions."""

    truth: Annotated[
        Path | None,
        Doc("""True scenes, in any format that `bassl score` reads; or a folder with the file of this video among
        others."""),
    ] = None
    tolerance: Annotated[
        Seconds,
        Doc("Greatest distance, in seconds, of a true scene end from the end of its shot, if the shots differ."),
    ] = 1.0
    within: Annotated[
        Seconds, Doc("Greatest distance, in seconds, of a true and a predicted boundary that count as one.")
    ] = 3.0
    frame_rate: Annotated[
        float | None, Doc("Frames per second of videos and label files that contain frame numbers only.")
    ] = None
    annotator: Annotated[int, Doc("Number of the BBC annotator whose labels are read.")] = 0
    doubtful: Annotated[
        Literal["end", "ignore"],
        Doc("""MovieNet's label -1: 'end' counts as a scene end, as in the paper's release; 'ignore' leaves it out
        of training and of all metrics but mIoU, coverage and overflow."""),
    ] = "end"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 0, "tolerance", "within")
        if self.frame_rate is not None and not 0 < self.frame_rate <= 1000:
            raise ValueError(f"{self.frame_rate:g} is not a number of frames per second")


@dataclass(frozen=True)
class Resampling(Settings):
    """Confidence intervals by bootstrap over videos."""

    resamples: Annotated[int, Doc("Draws of videos for the confidence intervals; 0 for none.")] = 1000
    seed: Annotated[int, Doc("Seed of the draws.")] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 0, "seed")
        if not 0 <= self.resamples <= 100_000:
            raise ValueError(f"resamples must be from 0 to 100,000, not {self.resamples:,}")


@dataclass(frozen=True)
class Compute(Settings):
    """What runs where in this process."""

    device: Annotated[
        str, Doc("Where PyTorch runs: auto, cpu, cuda or a numbered GPU such as cuda:1; ONNX encoders run on the CPU.")
    ] = "auto"
    workers: Annotated[int | None, Doc("Threads or processes that read keyframes, for each process of a job.")] = None
    precision: Annotated[
        Precision, Doc("Precision of training; auto is bf16 on a GPU (fp16 if it has no bf16) and float32 on a CPU.")
    ] = advanced("auto")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 0, "workers")
        if re.fullmatch(r"auto|cpu|(cuda|mps|xpu)(:\d+)?", self.device) is None:
            raise ValueError(f"unknown device {self.device!r}; choose auto, cpu, cuda or a numbered GPU such as cuda:1")


@dataclass(frozen=True)
class Indexed(Settings):
    """Videos of an index."""

    index: Annotated[Path, Doc("Index of the videos: their shots, keyframes, labels and splits.")] = Path(
        "data/index.h5"
    )


@dataclass(frozen=True)
class TrainingData(Indexed):
    """Features of an index to learn from."""

    features: Annotated[
        tuple[Path, ...],
        Doc("""Feature store, or several of one encoder, with all videos of the index. Default: the index's own, or
        computed ones."""),
    ] = ()
    splits: Annotated[
        tuple[str, ...], Doc("Splits of the index to learn from, such as train,val. Default: all videos.")
    ] = ()


@dataclass(frozen=True)
class ScoredData(Indexed):
    """Features of an index for a model to read."""

    features: Annotated[Path, Doc("Feature store of the model's encoder, or a folder with that store.")] = Path(
        "data/features"
    )


@dataclass(frozen=True)
class Listed(Settings):
    """What a ``scenes.json`` lists."""

    video: Annotated[
        Path | None, Doc("The video. Default: at the path in the ``scenes.json``, from its folder or absolute.")
    ] = None
    shots: Annotated[bool, Doc("Take the shots instead of the scenes.")] = False
    skip_credits: Annotated[
        bool,
        Doc("Leave out opening and end credits: shots whose middle lies in them, at the beginning and end of a scene."),
    ] = False
