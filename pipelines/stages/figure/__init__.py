"""Figures from a user's own videos, models and runs: the figures of the paper's appendix, and training curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import explain_missing_extra
from pipelines.files import paths_of
from pipelines.stages.figure.settings import (
    BoundarySettings,
    FigureResult,
    Legend,
    PseudoBoundarySettings,
    SimilaritySettings,
)

__all__ = [
    "BoundarySettings",
    "FigureResult",
    "Legend",
    "PseudoBoundarySettings",
    "SimilaritySettings",
    "draw_boundaries",
    "draw_curves",
    "draw_pseudo_boundaries",
    "draw_similarity",
]


@explain_missing_extra("draw_similarity")
def draw_similarity(
    models: Path | str | Sequence[Path | str], output: Path | str, settings: SimilaritySettings = SimilaritySettings()
) -> FigureResult:
    """Draw the cosine similarity of consecutive shots under several models (appendix, "Visualization of similarities
    between consecutive shots") to a .png, .svg or .pdf. A model is a feature store (a folder), whose features are
    compared directly; or a run or model file with the paper's CRN, which contextualizes each shot at the center of its
    own window. Scenes are outlined if the index has labels, and up to 48 shots have their keyframes if it has them.
    Raises BasslError for a video or shots that are not in the index, a model or store that cannot be read or lacks this
    video, or an output that cannot be written."""
    from pipelines.stages.figure.similarity import similarity  # start-up time: torch, matplotlib

    return similarity(paths_of(models), Path(output), settings)


@explain_missing_extra("draw_pseudo_boundaries")
def draw_pseudo_boundaries(
    windows: str | Sequence[str], output: Path | str, settings: PseudoBoundarySettings = PseudoBoundarySettings()
) -> FigureResult:
    """Draw where windows of shots are divided into two parts, and where their true scenes end (appendix,
    "Pseudo-boundaries"), with the middle keyframe of each shot, or without keyframes the similarity that determines
    the division. Shots are compared by their features (section 3.3). ``windows``: center shots as ``VIDEO:SHOT``;
    without, windows are sampled at random. As in pre-training, a window beyond a video's edge is moved inside. Raises
    BasslError for a window that is not in the index, a video shorter than a window, an index without labels to sample
    by, features or keyframes that cannot be read, or an output that cannot be written."""
    from pipelines.stages.figure.pseudo_boundaries import pseudo_boundaries  # start-up time: torch, matplotlib

    return pseudo_boundaries([windows] if isinstance(windows, str) else windows, Path(output), settings)


@explain_missing_extra("draw_boundaries")
def draw_boundaries(
    files: Path | str | Sequence[Path | str], output: Path | str, settings: BoundarySettings = BoundarySettings()
) -> FigureResult:
    """Draw the predictions of several models for one video, the ``scenes.json`` of `bassl predict` (appendix,
    "Predicted scene boundaries"): scores, threshold and scene ends over time, one lane per model; their shots may
    differ. Raises BasslError for a file or a truth that cannot be read, or an output that cannot be written."""
    from pipelines.stages.figure.boundaries import boundaries  # start-up time: matplotlib

    return boundaries(paths_of(files), Path(output), settings)


@explain_missing_extra("draw_curves")
def draw_curves(
    runs: Path | str | Sequence[Path | str], output: Path | str, settings: Legend = Legend()
) -> FigureResult:
    """Draw losses, learning rate and validation measures from the logs of run folders, finished or not, one panel per
    quantity. The seeds of a fine-tuned run are one line, their mean, with a band from minimum to maximum. Raises
    BasslError for a folder without a log, an empty or damaged log, or an output that cannot be written."""
    from pipelines.stages.figure.curves import curves  # start-up time: matplotlib

    return curves(paths_of(runs), Path(output), settings)
