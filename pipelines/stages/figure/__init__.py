"""Figures from a user's own videos, models and runs: the figures of the paper's appendix, and training curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from annotated_doc import Doc

from pipelines.errors import BasslError, count, explain_missing_extra
from pipelines.files import as_paths, check_output, is_file
from pipelines.options import Settings, check_at_least, nested, resolve_settings
from pipelines.outputs import plots
from pipelines.pretext.settings import PseudoBoundary
from pipelines.settings import Matching, ScoredData

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import BoundaryOptions, LegendOptions, PseudoBoundaryOptions, SimilarityOptions

MOST_IMAGES = 48  # in a row; more would be too small to recognize
METHODS: tuple[PseudoBoundary, ...] = ("dtw", "mean", "dtw-tslearn")
"""Ways to find a pseudo-boundary that read the window; the others of Table 4a are random or know the truth."""


@dataclass(frozen=True)
class Legend(Settings):
    """Names of models or runs in a figure."""

    labels: Annotated[tuple[str, ...], Doc("Names in the figure, in order; repeat it. Default: file names.")] = ()


@dataclass(frozen=True)
class SimilaritySettings(Settings):
    """Which shots, and how they are drawn."""

    data: ScoredData = nested(ScoredData())
    legend: Legend = nested(Legend())
    video: Annotated[str | None, Doc("Id of the video. Default: the only one of the index.")] = None
    first: Annotated[int, Doc("Number of the first shot, counted from 0.")] = 0
    shots: Annotated[int, Doc("How many shots (appendix: 16).")] = 16
    own_scale: Annotated[bool, Doc("A color scale for each matrix. Default: one, to compare colors.")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 2, "shots")


@dataclass(frozen=True)
class PseudoBoundarySettings(Settings):
    """Which windows, and how they are divided."""

    data: ScoredData = nested(ScoredData())
    windows: Annotated[int, Doc("Windows with a true scene end to sample, if none are named.")] = 4
    seed: Annotated[int, Doc("Seed of the sampling.")] = 0
    neighbors: Annotated[int, Doc("K, shots on each side of the center (section 4.1).")] = 8
    method: Annotated[
        PseudoBoundary, Doc("dtw (release), mean (equation of section 3.3) or dtw-tslearn (paper's listing).")
    ] = "dtw"
    model: Annotated[
        Path | None,
        Doc("""Pre-trained run: compare shots as its training does, with its shot-scene matching head, not by
        features."""),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in METHODS:
            raise ValueError(f"pseudo-boundaries are found by {', '.join(METHODS)}, not {self.method!r}")
        check_at_least(self, 1, "neighbors", "windows")
        check_at_least(self, 0, "seed")


@dataclass(frozen=True)
class BoundarySettings(Settings):
    """What predictions are compared with."""

    matching: Matching = nested(Matching(), without=("tolerance", "doubtful"))
    legend: Legend = nested(Legend())
    shots: Annotated[
        int | None,
        Doc("Draw so many shots as keyframes, scenes in color (paper: appendix). Default: scores over time."),
    ] = None
    first: Annotated[int, Doc("Number of the first of these shots, counted from 0.")] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 0, "first")
        if self.shots is not None and not 2 <= self.shots <= MOST_IMAGES:
            raise ValueError(f"shots must be 2 to {MOST_IMAGES}, not {self.shots}")


@dataclass(frozen=True)
class FigureResult:
    """What was written."""

    path: Path
    warnings: tuple[str, ...] = ()  # lines on what is missing from the figure or strange about it


@explain_missing_extra("draw_similarity")
def draw_similarity(
    models: Path | str | Sequence[Path | str],
    output: Path | str,
    settings: SimilaritySettings = SimilaritySettings(),
    **options: Unpack[SimilarityOptions],
) -> FigureResult:
    """Draw the cosine similarity of consecutive shots under several models (appendix, "Visualization of similarities
    between consecutive shots") to a .png, .svg or .pdf. A model is a feature store (a folder), whose features are
    compared directly; or a run or model file with the paper's CRN, which contextualizes each shot at the center of its
    own window. Scenes are outlined if the index has labels, and up to 48 shots have their keyframes if it has them.
    Raises BasslError for a video or shots that are not in the index, a model or store that cannot be read or lacks this
    video, or an output that cannot be written."""
    settings = resolve_settings(SimilaritySettings, settings, options)
    inputs, output = as_paths(models), Path(output)
    names = _names(inputs, settings.legend, output, settings.data.index, settings.data.features)
    from pipelines.stages.figure.shots import similarity  # start-up time: OpenCV, matplotlib

    return FigureResult(output, plots.save_plot(output, similarity(inputs, names, settings)))


@explain_missing_extra("draw_pseudo_boundaries")
def draw_pseudo_boundaries(
    windows: str | Sequence[str],
    output: Path | str,
    settings: PseudoBoundarySettings = PseudoBoundarySettings(),
    **options: Unpack[PseudoBoundaryOptions],
) -> FigureResult:
    """Draw where windows of shots are divided into two parts, and where their true scenes end (appendix,
    "Pseudo-boundaries"), with the middle keyframe of each shot, or without keyframes the similarity that determines
    the division. Shots are compared by their features (section 3.3), or with ``model`` by what its head of shot-scene
    matching makes of them, as in training. ``windows``: center shots as ``VIDEO:SHOT``;
    without, windows are sampled at random. As in pre-training, a window beyond a video's edge is moved inside. Raises
    BasslError for a window that is not in the index, a video shorter than a window, an index without labels to sample
    by, features or keyframes that cannot be read, or an output that cannot be written."""
    settings = resolve_settings(PseudoBoundarySettings, settings, options)
    output = Path(output)
    _check_output(output, (settings.data.index, settings.data.features))
    from pipelines.stages.figure.shots import pseudo_boundaries  # start-up time: torch, matplotlib

    figure = pseudo_boundaries([windows] if isinstance(windows, str) else windows, settings)
    return FigureResult(output, plots.save_plot(output, figure))


@explain_missing_extra("draw_boundaries")
def draw_boundaries(
    files: Path | str | Sequence[Path | str],
    output: Path | str,
    settings: BoundarySettings = BoundarySettings(),
    **options: Unpack[BoundaryOptions],
) -> FigureResult:
    """Draw the predictions of several models for one video, the ``scenes.json`` of `bassl predict` (appendix,
    "Predicted scene boundaries"): scores, threshold and scene ends over time, one lane per model; their shots may
    differ. With ``shots``, the middle frames of some shots of the first file, and below them the scenes of each model
    and the true ones in color. Raises BasslError for a file, a video or a truth that cannot be read, shots that the
    first file does not have, or an output that cannot be written."""
    settings = resolve_settings(BoundarySettings, settings, options)
    inputs, output = as_paths(files), Path(output)
    names = _names(inputs, settings.legend, output, settings.matching.truth)
    from pipelines.stages.figure.timelines import boundaries  # start-up time: matplotlib

    figure, differences = boundaries(inputs, names, settings)
    return FigureResult(output, (*plots.save_plot(output, figure), *differences))


@explain_missing_extra("draw_curves")
def draw_curves(
    runs: Path | str | Sequence[Path | str],
    output: Path | str,
    settings: Legend = Legend(),
    **options: Unpack[LegendOptions],
) -> FigureResult:
    """Draw losses, learning rate and validation measures from the logs of run folders, finished or not, one panel per
    quantity. The seeds of a fine-tuned run are one line, their mean, with a band from minimum to maximum. Raises
    BasslError for a folder without a log, an empty or damaged log, or an output that cannot be written."""
    settings = resolve_settings(Legend, settings, options)
    inputs, output = as_paths(runs), Path(output)
    names = _names(inputs, settings, output)
    from pipelines.stages.figure.timelines import curves  # start-up time: matplotlib

    return FigureResult(output, plots.save_plot(output, curves(inputs, names)))


def _check_output(path: Path, inputs: Iterable[Path | None]) -> None:
    plots.check_plot(path)
    check_output(path, (file for file in inputs if file is not None and is_file(file)))


def _names(inputs: Sequence[Path], legend: Legend, output: Path, *others: Path | None) -> list[str]:
    """Return the names of inputs in a figure: the labels, or the file names, or the paths if these are not unique.
    Raises BasslError if the labels do not fit the inputs, two names are equal, nothing is drawn, or the output cannot
    be written or would replace an input or one of the ``others``."""
    _check_output(output, (*inputs, *others))
    if not inputs:
        raise BasslError("nothing to draw: name at least one input")
    names = list(legend.labels)
    if names and len(names) != len(inputs):
        raise BasslError(
            f"{count(len(names), 'label')} for {count(len(inputs), 'input')}; give one label per input, in order"
        )
    if not names:
        models = [path.parent if path.name == "model.safetensors" else path for path in inputs]
        names = [p.stem if p.suffix.lower() in (".json", ".safetensors") else p.name or str(p) for p in models]
        if len(set(names)) < len(names):
            names = [str(path) for path in inputs]
    for name in names:
        if names.count(name) > 1:
            raise BasslError(f"{name}: two inputs have this name; give each its own with `label`")
    return names
