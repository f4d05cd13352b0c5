"""Settings of stages, apart from the stages, which import NumPy, PyAV and Jinja, because ``--help`` needs only them."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_doc import Doc

from pipelines.errors import BasslError
from pipelines.models.encoders import EncoderOptions, EncoderPrecision, check_encoder
from pipelines.options import Seconds, Settings, check_at_least, check_range, nested
from pipelines.outputs.exports import FORMATS, format_named
from pipelines.results.finding import check_template
from pipelines.settings import (
    ONLY_TRAINING,
    Compute,
    Grouping,
    Indexed,
    Matching,
    OutputSettings,
    Parallel,
    Reading,
    Resampling,
    RunSettings,
    SceneSelection,
    ScenesOutput,
    ScoredData,
    TrainingData,
)


@dataclass(frozen=True)
class PredictSettings(Settings):
    """Everything that determines which scenes are found."""

    heading = "Model and device"
    reading: Reading = nested(Reading(), defaults={"detector": "the model's own, or transitions"})
    encoder: Annotated[
        str | None,
        Doc("""Shot encoder: efficientnet_lite0; an ONNX file of an image network; resnet50 or timm:NAME, which
        download weights; or a pre-trained run. Default: the model's own, or efficientnet_lite0."""),
    ] = None
    model: Annotated[Path | None, Doc("A fine-tuned run or model file. Default: the built-in model.")] = None
    grouping: Grouping = nested(Grouping())
    describe: Annotated[
        str | None,
        Doc("""A program that names scenes: it is run for each scene without a name by hand, with JSON on stdin
        (the path of an image with keyframes, and what is said), and prints the name. No shell is used."""),
    ] = None
    compute: Compute = nested(Compute(), without=("workers", "precision"))
    encoder_options: EncoderOptions = nested(EncoderOptions(), advanced=True)

    @property
    def files(self) -> tuple[Path | None, ...]:
        """Return the files that are read besides videos."""
        return self.reading.shots, self.reading.subtitles, self.model

    def __post_init__(self) -> None:
        super().__post_init__()
        self.grouping.resolved()  # raises ValueError
        object.__setattr__(self, "encoder", None if self.encoder is None else str(self.encoder))
        if self.describe is not None:
            words = shlex.split(self.describe, posix=os.name == "posix")
            if not words or shutil.which(words[0]) is None:
                raise ValueError(f"describe: there is no program {words[0] if words else ''!r}")
        if self.encoder is not None:
            check_encoder(self.encoder)


@dataclass(frozen=True)
class ExportSettings(Settings):
    """Which format, and where the file is written."""

    to: Annotated[tuple[str, ...], Doc("Name of the format, or several. Default: by the extension of --output.")] = ()
    csv_separator: Annotated[
        Literal["comma", "semicolon", "tab"],
        Doc("Separator of CSV. With semicolons decimals have commas, as in a German Excel."),
    ] = "comma"
    vectors: Annotated[bool, Doc("With jsonl: add each scene's mean encoding, by reading the video again.")] = False
    run: ScenesOutput = nested(
        ScenesOutput(),
        without=("overwrite", "discard_corrections"),
        defaults={"output": "the input's name with the format's extension"},
    )
    selection: SceneSelection = nested(SceneSelection(), without=("skip_credits",))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.to:
            format_named(name)
        if not self.to and self.run.output is None:
            raise ValueError(f"give `to=FORMAT` ({', '.join(FORMATS)}) or `output=FILE`")


@dataclass(frozen=True)
class RegroupSettings(Settings):
    """Which scenes, and where they are written."""

    run: ScenesOutput = nested(ScenesOutput(), defaults={"output": "in place of the input"})
    grouping: Grouping = nested(
        Grouping(), defaults=dict.fromkeys(("threshold", "min_scene", "max_scene", "drop_short"), "as in the file")
    )


@dataclass(frozen=True)
class ReviewSettings(Settings):
    """Content of a page, and of the page that a review serves."""

    selection: SceneSelection = nested(SceneSelection(), without=("shots", "skip_credits"))


@dataclass(frozen=True)
class ReportSettings(ReviewSettings):
    """Content and path of a page."""

    run: OutputSettings = nested(
        OutputSettings(), without=("overwrite",), defaults={"output": "SCENES.html beside the input"}
    )


@dataclass(frozen=True)
class LearnSettings(Settings):
    """What a model of one's own learns from, and where it is written."""

    heading = "Output"
    labels: Annotated[
        Path | None,
        Doc("True scenes, such as chapters: a file, or a folder of files named as the videos. Default: as corrected."),
    ] = None
    output: Annotated[Path, Doc("Model file to write.")] = Path("my.safetensors")
    overwrite: Annotated[bool, Doc("Replace an existing model file.")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output.suffix.lower() != ".safetensors":
            raise ValueError(f"{self.output}: the name of a model file ends in .safetensors")


Preset = Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"]
_CLIP_NAMES = ("VIDEO_NAME", "SCENE_NUMBER", "SCENE_NAME", "START_TIME", "END_TIME")


@dataclass(frozen=True)
class SplitSettings(Settings):
    """How a video is cut."""

    run: OutputSettings = nested(OutputSettings(), defaults={"output": "VIDEO-scenes in the current folder"})
    selection: SceneSelection = nested(SceneSelection(), without=("shots",))
    exact: Annotated[bool, Doc("Cut to the frame by encoding again (H.264, AAC), not only at key frames.")] = False
    crf: Annotated[int | None, Doc("With exact: quality, 0 (lossless) to 51. Default: 18.")] = None
    preset: Annotated[Preset | None, Doc("With exact: speed of libx264. Default: fast.")] = None
    expand: Annotated[Seconds, Doc("Handles: time to add before and after each scene, as seconds or timecode.")] = 0.0
    filename: Annotated[
        str, Doc("File names without ending: $VIDEO_NAME, $SCENE_NUMBER, $SCENE_NAME, $START_TIME, $END_TIME.")
    ] = "$VIDEO_NAME-scene-$SCENE_NUMBER"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.exact and (self.crf is not None or self.preset is not None):
            raise ValueError("crf and preset apply only to encoding; add `exact=True`, or leave them out to copy")
        check_range(self, 0, 51, "crf")
        check_template(self.filename, _CLIP_NAMES)


_IMAGE_NAMES = ("VIDEO_NAME", "SCENE_NUMBER", "SCENE_NAME", "SHOT_NUMBER", "IMAGE_NUMBER", "TIMECODE")
_LONGEST = 16383  # pixels on a side, the limit of WebP


@dataclass(frozen=True)
class ImageSettings(Settings):
    """Which images, and where they are written."""

    run: OutputSettings = nested(OutputSettings(), defaults={"output": "VIDEO-images in the current folder"})
    selection: SceneSelection = nested(SceneSelection())
    images: Annotated[int, Doc("Images of each scene.")] = 3
    format: Annotated[Literal["jpg", "png", "webp"], Doc("Format of the images.")] = "jpg"
    quality: Annotated[int, Doc("Quality of JPEG and WebP, 1 to 100.")] = 90
    width: Annotated[int | None, Doc("Width in pixels. Default: the video's, or what fits the height.")] = None
    height: Annotated[int | None, Doc("Height in pixels. Default: the video's, or what fits the width.")] = None
    filename: Annotated[
        str | None,
        Doc("""File names without ending: $VIDEO_NAME, $SCENE_NUMBER, $SCENE_NAME, $SHOT_NUMBER, $IMAGE_NUMBER,
        $TIMECODE. Default: $VIDEO_NAME-scene-$SCENE_NUMBER-$IMAGE_NUMBER."""),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_template(self.template, _IMAGE_NAMES)
        check_range(self, 1, 1000, "images")
        check_range(self, 1, 100, "quality")
        check_range(self, 1, _LONGEST, "width", "height")

    @property
    def template(self) -> str:
        """Return the template for the name of each file."""
        unit = "shot-$SHOT_NUMBER" if self.selection.shots else "scene-$SCENE_NUMBER"
        return self.filename or f"$VIDEO_NAME-{unit}-$IMAGE_NUMBER"

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return (width, height) of the images of a video of this size. Raises BasslError if they are too large."""
        columns, rows = self.width, self.height
        if columns is None:
            columns = width if rows is None else max(1, round(width * rows / height))
        rows = rows or max(1, round(height * columns / width))
        if max(columns, rows) > _LONGEST:
            size = f"{columns} x {rows} pixels, but the limit is {_LONGEST}"
            raise BasslError(f"images would have {size}; choose a smaller `width` or `height`")
        return columns, rows


@dataclass(frozen=True)
class IndexSettings(Settings):
    """What goes into an index and how."""

    run: RunSettings = nested(RunSettings(Path("data/index.h5")), without=("resume", "deterministic", "log_steps"))
    labels: Annotated[
        tuple[Path, ...],
        Doc("Label files for the videos of the sources: MovieNet, BBC, OVSD, scenes.json, CSV or chapters."),
    ] = ()
    accept_predictions: Annotated[bool, Doc("Take scenes that a model found, uncorrected, for true ones.")] = False
    split: Annotated[
        str | tuple[float, ...] | Path | None,
        Doc("""Draw splits by video: 0.6,0.2,0.2 are the shares of train, val and test; or a JSON file with the
        video ids of each split. Default: the splits of the sources."""),
    ] = None
    matching: Matching = nested(Matching(), without=("truth", "within"))
    feature_folder: Annotated[Path, Doc("Folder for features of .npz sources, a store each.")] = Path("data/features")
    only_complete: Annotated[bool, Doc("Leave out videos without keyframes or features, or damaged ones.")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "split", _split(self.split))


def _split(split: str | Sequence[float] | Path | None) -> tuple[float, ...] | Path | None:
    if isinstance(split, str):
        if split.lower().endswith(".json"):
            return Path(split)
        try:
            split = tuple(float(share) for share in split.split(","))
        except ValueError as error:
            raise ValueError(f"a split is shares such as 0.6,0.2,0.2 or a .json file, not {split!r}") from error
    if split is None or isinstance(split, Path):
        return split
    if not 2 <= len(split) <= 3 or any(not 0 <= share <= 1 for share in split) or abs(sum(split) - 1) > 1e-6:
        raise ValueError("a split is two or three shares of 0 to 1 that add up to 1, such as 0.6,0.2,0.2")
    return tuple(split)


@dataclass(frozen=True)
class SoundSettings(Settings):
    """Which videos' sound, and where the features go."""

    data: Indexed = nested(Indexed())
    run: RunSettings = nested(RunSettings(Path("data/sound")), without=ONLY_TRAINING)
    parallel: Parallel = nested(Parallel(), without=("dask",), defaults={"jobs": "one for each core"})


@dataclass(frozen=True)
class EncodeSettings(Settings):
    """Which shots are encoded, and by which encoder."""

    data: Indexed = nested(Indexed())
    encoder: Annotated[
        str | Path,
        Doc("""Shot encoder: efficientnet_lite0, an ONNX file of an image network, resnet18 to resnet152 or
        timm:NAME (ImageNet weights), or the path of a pre-trained run or model file."""),
    ] = "efficientnet_lite0"
    run: RunSettings = nested(RunSettings(Path("data/features")), without=ONLY_TRAINING)
    parallel: Parallel = nested(Parallel(), without=("jobs",))
    labeled: Annotated[bool, Doc("Only videos with labels: all that fine-tuning, scoring and baselines read.")] = False
    compute: Compute = nested(Compute(), without=("precision",), defaults={"workers": "a share of cores; 1 with Dask"})
    preparation: Annotated[
        Literal["center", "squeeze"] | None,
        Doc("""How a keyframe becomes square: center (shorter side to 8/7 of the input, then its center) or squeeze (the
        whole frame). Default: center for a pre-trained or imported encoder (release), else squeeze."""),
    ] = None
    precision: Annotated[
        EncoderPrecision,
        Doc("""Precision of an encoder run by PyTorch, part of its id; auto: bfloat16 if the device computes in it.
        Features in bfloat16 differ by about 1 %."""),
    ] = "float32"
    encoder_options: EncoderOptions = nested(EncoderOptions(), advanced=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self.compute, 1, "workers")


@dataclass(frozen=True)
class ScoreSettings(Settings):
    """What is scored, and how.

    A threshold of 0.5 is softmax's, as in the paper's release, for an imported or pre-trained model. A run of `bassl
    finetune` is calibrated on its validation split: 0.5 is the threshold of best F1 there."""

    data: ScoredData = nested(ScoredData())
    split: Annotated[str, Doc("Videos of this split; ``all`` takes every labeled video.")] = "test"
    grouping: Grouping = nested(
        Grouping(),
        without=("min_scene", "max_scene", "drop_short", "scenes"),
        defaults={"threshold": "0.5 for a model; for a list of scenes, the scenes that it lists"},
    )
    at: Annotated[float | None, Doc("Also show F1 and mIoU at this softmax before calibration (paper: 0.5).")] = None
    matching: Matching = nested(Matching(), without=("truth",))
    resampling: Resampling = nested(Resampling(1000))
    representation: Annotated[
        bool,
        Doc("""Also measure how well features group by scene: kNN precision and NMI (appendix). For a feature
        store, or a pre-trained run without a head that scores videos, only this is measured."""),
    ] = False
    compute: Compute = nested(Compute(), without=("workers", "precision"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at is not None and not 0 < self.at < 1:
            raise ValueError(f"at must be a softmax above 0 and below 1, for example 0.5, not {self.at:g}")

    @property
    def measuring(self) -> dict[str, Any]:
        """Return the arguments of `pipelines.evaluation.bootstrap.measure`."""
        return {"threshold": self.grouping.threshold or 0.5, "within": self.matching.within, **vars(self.resampling)}


@dataclass(frozen=True)
class BaselineSettings(Settings):
    """Which system, on which videos."""

    system: Annotated[
        str,
        Doc("""graph-cut, scsa, dp, story-graph, grouping, siamese, lgss, lgss-movienet (lgss in its release's
        sizes, for about two hundred videos) or fixed-length."""),
    ] = "graph-cut"
    data: TrainingData = nested(TrainingData(splits=("train", "val")))  # settings are chosen on these
    extra: Annotated[tuple[Path, ...], Doc("Stores of more features (sound, place, cast), for grouping and lgss.")] = ()
    matching: Matching = nested(Matching(), without=("truth", "tolerance", "within", "annotator", "doubtful"))
    split: Annotated[str, Doc("Videos of this split; ``all`` takes every labeled video.")] = "test"
    resampling: Resampling = nested(Resampling(0), without=("seed",))
    seeds: Annotated[int, Doc("Training runs of siamese and lgss, each with another seed.")] = 5
    compute: Compute = nested(Compute(), without=("workers", "precision"))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "seeds")
