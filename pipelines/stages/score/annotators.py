"""One prediction against the truths of several annotators, and the annotators against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from pipelines.errors import BasslError
from pipelines.stages.score.lists import score_lists
from pipelines.stages.score.result import AnnotatorScores
from pipelines.stages.score.settings import ScoreSettings


def score_annotators(subject: Path, truths: Sequence[Path], settings: ScoreSettings) -> AnnotatorScores:
    """Score a list of scenes, or a folder of them, against each truth, and each truth as a prediction against each
    other truth. A truth is the labels of one annotator, a file or a folder as for `score`; the threshold of the
    settings is for the prediction only. Raises BasslError where a file cannot be read, or a truth is named twice."""
    names = [str(truth) for truth in truths]
    if len(set(names)) < max(2, len(names)):
        raise BasslError(f"{names[-1]}: name two truths or more, each once")
    scores = {name: score_lists(subject, Path(name), settings) for name in names}
    listed = replace(settings, threshold=None)  # a list of scenes ends scenes where it says so
    between = {(one, other): score_lists(Path(one), Path(other), listed) for one, other in permutations(names, 2)}
    return AnnotatorScores(scores, between)
