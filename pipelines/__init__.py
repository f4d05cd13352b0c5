"""The stages of video scene segmentation, as a library: typed, silent, importable without the command line.

Each stage is one function in the module of its name, and can be had from here::

    from pipelines import PredictSettings, predict
"""

__version__ = "0.1.0"

from pipelines.errors import BasslError
from pipelines.scenes import Scene, SceneList, Shot
from pipelines.stages.build_index import IndexReport, IndexSettings, build_index
from pipelines.stages.extract_keyframes import ExtractSettings, extract_keyframes
from pipelines.stages.predict import FilmScenes, PredictSettings, predict, predict_films
from pipelines.stages.pretrain import PretrainResult, PretrainSettings, pretrain
from pipelines.stages.report import ReportResult, ReportSettings, report
from pipelines.stages.score import Comparison, ScoreResult, ScoreSettings, compare, score

__all__ = [
    "BasslError",
    "Comparison",
    "ExtractSettings",
    "FilmScenes",
    "IndexReport",
    "IndexSettings",
    "PredictSettings",
    "PretrainResult",
    "PretrainSettings",
    "ReportResult",
    "ReportSettings",
    "Scene",
    "SceneList",
    "ScoreResult",
    "ScoreSettings",
    "Shot",
    "build_index",
    "compare",
    "extract_keyframes",
    "predict",
    "predict_films",
    "pretrain",
    "report",
    "score",
]
