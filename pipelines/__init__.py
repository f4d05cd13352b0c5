"""The stages of video scene segmentation, as a library: typed, silent, importable without the command line.

Each stage is one function in the module of its name, and can be had from here::

    from pipelines import PredictSettings, predict
"""

__version__ = "0.1.0"

from pipelines.build_index import IndexReport, IndexSettings, build_index
from pipelines.errors import BasslError
from pipelines.extract_keyframes import ExtractSettings, extract_keyframes
from pipelines.predict import PredictSettings, predict
from pipelines.pretrain import PretrainResult, PretrainSettings, pretrain
from pipelines.scenes import Scene, SceneList, Shot

__all__ = [
    "BasslError",
    "ExtractSettings",
    "IndexReport",
    "IndexSettings",
    "PredictSettings",
    "PretrainResult",
    "PretrainSettings",
    "Scene",
    "SceneList",
    "Shot",
    "build_index",
    "extract_keyframes",
    "predict",
    "pretrain",
]
