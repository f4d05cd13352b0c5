from pipelines import __version__ as __version__
from pipelines.errors import (
    BasslError as BasslError,
    BasslWarning as BasslWarning,
    CorrectedError as CorrectedError,
    SomeFailedError as SomeFailedError,
)
from pipelines.progress import VideoResult as VideoResult
from pipelines.scenes import Scene as Scene, Shot as Shot
from pipelines.settings import Grouping as Grouping, Reading as Reading
from pipelines.stages.baseline import baseline as baseline
from pipelines.stages.build_index import build_index as build_index
from pipelines.stages.encode import encode_shots as encode_shots
from pipelines.stages.export import export as export
from pipelines.stages.extract_keyframes import (
    ExtractSettings as ExtractSettings,
    extract_keyframes as extract_keyframes,
)
from pipelines.stages.extract_sound import extract_sound as extract_sound
from pipelines.stages.figure import (
    draw_boundaries as draw_boundaries,
    draw_curves as draw_curves,
    draw_pseudo_boundaries as draw_pseudo_boundaries,
)
from pipelines.stages.finetune import FinetuneSettings as FinetuneSettings, finetune as finetune
from pipelines.stages.learn import learn as learn
from pipelines.stages.models import import_checkpoint as import_checkpoint, list_models as list_models
from pipelines.stages.predict import (
    PredictSettings as PredictSettings,
    load_model as load_model,
    predict as predict,
    predict_videos as predict_videos,
)
from pipelines.stages.predict.model import SceneModel as SceneModel
from pipelines.stages.pretrain import PretrainSettings as PretrainSettings, pretrain as pretrain
from pipelines.stages.regroup import regroup as regroup
from pipelines.stages.report import report as report
from pipelines.stages.reproduce import reproduce as reproduce
from pipelines.stages.review import review as review
from pipelines.stages.save_images import save_images as save_images
from pipelines.stages.scene_list import SceneList as SceneList, load_scenes as load_scenes
from pipelines.stages.score import ScoreResult as ScoreResult, score as score
from pipelines.stages.settings import (
    EncodeSettings as EncodeSettings,
    IndexSettings as IndexSettings,
    ScoreSettings as ScoreSettings,
)
from pipelines.stages.split import split as split
from pipelines.training import Machines as Machines
