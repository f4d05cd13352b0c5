"""Options of functions, which editors and mypy read; made from the settings by `make generated`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict

from pipelines.models.encoders import EncoderOptions
from pipelines.pretext import AugmentationSettings, PretextSettings
from pipelines.settings import (
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
from pipelines.stages.figure import Legend
from pipelines.training import Machines

class BaselineOptions(TypedDict, total=False):
    system: str
    data: TrainingData
    index: Path | str
    features: Path | str | Sequence[Path | str]
    splits: str | Sequence[str]
    extra: Path | str | Sequence[Path | str]
    matching: Matching
    frame_rate: float | None
    split: str
    resampling: Resampling
    resamples: int
    seeds: int
    compute: Compute
    device: str

class BoundaryOptions(TypedDict, total=False):
    matching: Matching
    truth: Path | str | None
    frame_rate: float | None
    annotator: int
    legend: Legend
    labels: str | Sequence[str]
    shots: int | None
    first: int

class EncodeOptions(TypedDict, total=False):
    data: Indexed
    index: Path | str
    encoder: str | Path
    run: RunSettings
    output: Path | str
    overwrite: bool
    parallel: Parallel
    dask: str | None
    labeled: bool
    compute: Compute
    device: str
    workers: int | None
    preparation: Literal["center", "squeeze"] | None
    precision: Literal["auto", "bfloat16", "float32"]
    encoder_options: EncoderOptions
    encoder_mean: float | Sequence[float] | None
    encoder_std: float | Sequence[float] | None
    encoder_size: int | None
    encoder_output: str | None

class SceneExportOptions(TypedDict, total=False):
    to: str | Sequence[str]
    csv_separator: Literal["comma", "semicolon", "tab"]
    vectors: bool
    run: ScenesOutput
    selection: SceneSelection
    video: Path | str | None
    shots: bool

class ExportOptions(SceneExportOptions, total=False):
    output: Path | str | None

class ExtractOptions(TypedDict, total=False):
    run: RunSettings
    output: Path | str
    overwrite: bool
    parallel: Parallel
    jobs: int | None
    dask: str | None
    reading: Reading
    detector: Literal["adaptive", "content", "hash", "histogram", "threshold", "transitions", "transnetv2"] | None
    detector_threshold: float | None
    min_shot: float | str | None
    start: float | str | None
    end: float | str | None
    duration: float | str | None
    keyframes: int
    lines: int
    quality: int

class FinetuneOptions(TypedDict, total=False):
    data: TrainingData
    index: Path | str
    features: Path | str | Sequence[Path | str]
    splits: str | Sequence[str]
    run: RunSettings
    output: Path | str
    overwrite: bool
    resume: bool
    seed: int
    deterministic: bool
    log_steps: int
    init: str
    transfer: Literal["encoder", "encoder+crn"] | None
    encoder: str | None
    preparation: Literal["center", "squeeze"] | None
    feature_folder: Path | str
    compute: Compute
    device: str
    workers: int | None
    precision: Literal["auto", "bf16", "float32", "float64", "fp16"]
    crn: Literal["mlp", "ms-lstm", "relational", "transformer"]
    select: Literal["last", "val"] | None
    loss: Literal["balanced", "plain"]
    seeds: int
    epochs: int | None
    batch: int | None
    rate: float | None
    neighbors: int | None
    width: int | None
    layers: int
    heads: int
    dropout: float | None
    sequence: int

class GroupingOptions(TypedDict, total=False):
    threshold: float | None
    min_scene: float | str | None
    max_scene: float | str | None
    drop_short: bool
    scenes: int | None

class SceneImageOptions(TypedDict, total=False):
    run: OutputSettings
    overwrite: bool
    selection: SceneSelection
    video: Path | str | None
    shots: bool
    skip_credits: bool
    images: int
    format: Literal["jpg", "png", "webp"]
    quality: int
    width: int | None
    height: int | None
    filename: str | None

class ImageOptions(SceneImageOptions, total=False):
    output: Path | str | None

class IndexOptions(TypedDict, total=False):
    run: RunSettings
    output: Path | str
    overwrite: bool
    seed: int
    labels: Path | str | Sequence[Path | str]
    accept_predictions: bool
    split: str | float | Sequence[float] | Path | None
    matching: Matching
    tolerance: float | str
    frame_rate: float | None
    annotator: int
    doubtful: Literal["end", "ignore"]
    feature_folder: Path | str
    only_complete: bool

class LearnOptions(TypedDict, total=False):
    labels: Path | str | None
    output: Path | str
    overwrite: bool

class LegendOptions(TypedDict, total=False):
    labels: str | Sequence[str]

class PredictOptions(TypedDict, total=False):
    reading: Reading
    detector: Literal["adaptive", "content", "hash", "histogram", "threshold", "transitions", "transnetv2"] | None
    detector_threshold: float | None
    min_shot: float | str | None
    shots: Path | str | None
    subtitles: Path | str | None
    subtitle_encoding: str | None
    silence: bool
    start: float | str | None
    end: float | str | None
    duration: float | str | None
    encoder: str | None
    model: Path | str | None
    grouping: Grouping
    threshold: float | None
    min_scene: float | str | None
    max_scene: float | str | None
    drop_short: bool
    scenes: int | None
    describe: str | None
    compute: Compute
    device: str
    encoder_options: EncoderOptions
    encoder_mean: float | Sequence[float] | None
    encoder_std: float | Sequence[float] | None
    encoder_size: int | None
    encoder_output: str | None

class PretrainOptions(TypedDict, total=False):
    data: TrainingData
    index: Path | str
    features: Path | str | Sequence[Path | str]
    splits: str | Sequence[str]
    compute: Compute
    device: str
    workers: int | None
    precision: Literal["auto", "bf16", "float32", "float64", "fp16"]
    run: RunSettings
    output: Path | str
    overwrite: bool
    resume: bool
    seed: int
    deterministic: bool
    log_steps: int
    pretext: PretextSettings
    method: Literal["bassl", "bassl+simclr-nn", "simclr-instance", "simclr-nn", "simclr-temporal"]
    tasks: Literal["cgm", "msm", "pp", "ssm"] | Sequence[Literal["cgm", "msm", "pp", "ssm"]]
    alpha_ssm: float
    alpha_cgm: float
    alpha_pp: float
    alpha_msm: float
    pseudo_boundary: Literal["dtw", "dtw-tslearn", "fixed", "mean", "random", "synthesized"]
    alignment: Literal["encodings", "head"]
    variant: Literal["paper", "release"]
    temperature: float
    masking_rate: float
    head_dim: int
    augmentation: AugmentationSettings
    size: int
    scale: float | Sequence[float]
    ratio: float | Sequence[float]
    flip: float
    jitter: float
    jitter_gate: Literal["shot", "window"]
    jitter_per: Literal["shot", "window"]
    brightness: float
    contrast: float
    saturation: float
    hue: float
    grayscale: float
    blur: float
    sigma: float | Sequence[float]
    sigma_per: Literal["shot", "window"]
    kernel_size: int
    neighbors: int
    epochs: int
    batch: int
    micro_batch: int | None
    encoder: str
    base_rate: float
    momentum: float
    weight_decay: float
    trust: float
    lars_exclude: Literal["paper", "release"]
    warm_up: float
    width: int
    layers: int
    heads: int
    dropout: float
    save_minutes: float
    validate_epochs: int

class PseudoBoundaryOptions(TypedDict, total=False):
    data: ScoredData
    index: Path | str
    features: Path | str
    windows: int
    neighbors: int

class RegroupOptions(TypedDict, total=False):
    run: ScenesOutput
    output: Path | str | None
    overwrite: bool
    discard_corrections: bool
    grouping: Grouping
    threshold: float | None
    min_scene: float | str | None
    max_scene: float | str | None
    drop_short: bool
    scenes: int | None

class SceneReportOptions(TypedDict, total=False):
    selection: SceneSelection
    video: Path | str | None
    run: OutputSettings

class ReportOptions(SceneReportOptions, total=False):
    output: Path | str | None

class ReproduceOptions(TypedDict, total=False):
    table: str
    data: Path | str | None
    rows: str | Sequence[str]
    machines: Machines
    gpus: int | None
    processes: int
    nodes: int
    node_rank: int | None
    rdzv_endpoint: str | None
    epochs: int | None
    seeds: int
    output: Path | str
    overwrite: bool

class ReviewOptions(TypedDict, total=False):
    selection: SceneSelection
    video: Path | str | None

class ScoreOptions(TypedDict, total=False):
    data: ScoredData
    index: Path | str
    features: Path | str
    split: str
    grouping: Grouping
    threshold: float | None
    at: float | None
    matching: Matching
    tolerance: float | str
    within: float | str
    frame_rate: float | None
    annotator: int
    doubtful: Literal["end", "ignore"]
    resampling: Resampling
    resamples: int
    seed: int
    representation: bool
    compute: Compute
    device: str

class SoundOptions(TypedDict, total=False):
    data: Indexed
    index: Path | str
    run: RunSettings
    output: Path | str
    overwrite: bool
    parallel: Parallel
    jobs: int | None

class SceneSplitOptions(TypedDict, total=False):
    run: OutputSettings
    overwrite: bool
    selection: SceneSelection
    video: Path | str | None
    skip_credits: bool
    exact: bool
    crf: int | None
    preset: (
        Literal["fast", "faster", "medium", "slow", "slower", "superfast", "ultrafast", "veryfast", "veryslow"] | None
    )
    expand: float | str
    filename: str

class SplitOptions(SceneSplitOptions, total=False):
    output: Path | str | None

class VideoOptions(TypedDict, total=False):
    detector: Literal["adaptive", "content", "hash", "histogram", "threshold", "transitions", "transnetv2"] | None
    detector_threshold: float | None
    min_shot: float | str | None
    shots: Path | str | None
    subtitles: Path | str | None
    subtitle_encoding: str | None
    silence: bool
    start: float | str | None
    end: float | str | None
    duration: float | str | None
    threshold: float | None
    min_scene: float | str | None
    max_scene: float | str | None
    drop_short: bool
    scenes: int | None
