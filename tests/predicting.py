"""Predicting one video into files, as the command does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.options import with_options
from pipelines.progress import ReportProgress, no_progress
from pipelines.settings import ScenesOutput
from pipelines.stages.predict import PredictSettings, file_task, predict_task
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.scene_list import SceneList


def predict_file(
    video: Path,
    output: Path | str | None,
    settings: PredictSettings = PredictSettings(),
    *,
    to: Sequence[str] = (),
    page: Path | str | None = None,
    overwrite: bool = False,
    discard_corrections: bool = False,
    progress: ReportProgress = no_progress,
    **options: Any,
) -> SceneList:
    settings = with_options(settings, **options)
    result, html = (None if path is None else Path(path) for path in (output, page))
    replaces = ScenesOutput(None, overwrite, discard_corrections)
    task = file_task(Path(video), result, settings, to=to, page=html, replaces=replaces)
    return predict_task(SceneModel(settings), task, progress)[0]
