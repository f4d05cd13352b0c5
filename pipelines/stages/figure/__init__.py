"""Figures for a paper from a user's own videos, models and runs: those of the paper's appendix, and training curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import explain_missing_extra
from pipelines.files import paths_of
from pipelines.stages.figure.settings import (
    BoundarySettings,
    CurveSettings,
    FigureResult,
    PseudoBoundarySettings,
    SimilaritySettings,
)

__all__ = [
    "BoundarySettings",
    "CurveSettings",
    "FigureResult",
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
    between consecutive shots") to a .png, .svg or .pdf. A model is a feature store (.h5), whose features are compared
    as they are; or a run or model file with the paper's CRN, of which each contextualised shot, at the centre of its
    own window, is compared. Scenes are outlined where the index knows them, and the keyframes of up to 48 shots are
    shown where it has them. Raises BasslError for a video or shots that are not in the index, a model or store that
    cannot be read or has nothing of this video, or an output that cannot be written."""
    from pipelines.stages.figure.similarity import similarity  # start-up time: torch, matplotlib

    return similarity(paths_of(models), Path(output), settings)


@explain_missing_extra("draw_pseudo_boundaries")
def draw_pseudo_boundaries(
    windows: str | Sequence[str], output: Path | str, settings: PseudoBoundarySettings = PseudoBoundarySettings()
) -> FigureResult:
    """Draw where windows of shots are divided into two parts, and where their true scenes end (appendix,
    "Pseudo-boundaries"), with the middle keyframe of each shot, or without keyframes the similarity that the division
    rests on. Shots are compared by their features (section 3.3). ``windows`` are centre shots, as ``VIDEO:SHOT``; none:
    sampled at random. As in pre-training, a window that reaches over a video's edge is moved inside. Raises BasslError
    for a window that is not in the index, a video that is shorter than a window, an index without labels to sample by,
    features or keyframes that cannot be read, or an output that cannot be written."""
    from pipelines.stages.figure.pseudo_boundaries import pseudo_boundaries  # start-up time: torch, matplotlib

    return pseudo_boundaries([windows] if isinstance(windows, str) else windows, Path(output), settings)


@explain_missing_extra("draw_boundaries")
def draw_boundaries(
    files: Path | str | Sequence[Path | str], output: Path | str, settings: BoundarySettings = BoundarySettings()
) -> FigureResult:
    """Draw what several models predict for one video, in the ``scenes.json`` of `bassl predict` (appendix, "Predicted
    scene boundaries"): scores, threshold and scene ends, one lane each, by time, so that their shots may differ. Raises
    BasslError for a file or a truth that cannot be read, or an output that cannot be written."""
    from pipelines.stages.figure.boundaries import boundaries  # start-up time: matplotlib

    return boundaries(paths_of(files), Path(output), settings)


@explain_missing_extra("draw_curves")
def draw_curves(
    runs: Path | str | Sequence[Path | str], output: Path | str, settings: CurveSettings = CurveSettings()
) -> FigureResult:
    """Draw losses, learning rate and validation measures of run folders, ended or not, from their logs, a panel each.
    The seeds of a fine-tuned run are one line, their mean, with a band from minimum to maximum. Raises
    BasslError for a folder without a log, an empty or damaged log, or an output that cannot be written."""
    from pipelines.stages.figure.curves import curves  # start-up time: matplotlib

    return curves(paths_of(runs), Path(output), settings)
