"""A video's scenes for programs: the data, with methods that call the stages."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.scenes import SceneData


@dataclass(frozen=True)
class SceneList(SceneData):
    """The scenes of a video, with its shots, settings and facts."""
