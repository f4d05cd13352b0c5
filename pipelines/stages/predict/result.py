"""What prediction of a video into files returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipelines.stages.scene_list import SceneList


@dataclass(frozen=True)
class Outcome:
    """The scenes of a video, and how they were found."""

    scenes: SceneList
    status: Literal["done", "regrouped", "kept"] = "done"
    note: str = ""  # one line on what was done with an existing result
    corrected: bool = False  # whether they are kept because they were corrected by hand
    refused: bool = False  # whether they are kept though other scenes were asked for
