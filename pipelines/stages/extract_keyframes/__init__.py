"""Extracting keyframes: films in, one keyframe store for each out."""

from pipelines.stages.extract_keyframes.running import extract_keyframes
from pipelines.stages.extract_keyframes.settings import ExtractSettings, FilmResult

__all__ = ["ExtractSettings", "FilmResult", "extract_keyframes"]
