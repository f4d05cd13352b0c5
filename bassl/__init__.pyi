from pipelines import __version__ as __version__
from pipelines.datasets.matching import MatchReport as MatchReport
from pipelines.errors import (
    BasslError as BasslError,
    BasslWarning as BasslWarning,
    CorrectedError as CorrectedError,
    DatasetError as DatasetError,
    SomeFailedError as SomeFailedError,
    StoreError as StoreError,
    VideoError as VideoError,
)
from pipelines.evaluation.alignment import Alignment as Alignment
from pipelines.evaluation.bootstrap import Measure as Measure
from pipelines.evaluation.metrics import VideoScores as VideoScores
from pipelines.evaluation.representation import KnnPrecision as KnnPrecision, SceneClustering as SceneClustering
from pipelines.models.bassl import BasslSettings as BasslSettings, BasslWeights as BasslWeights
from pipelines.models.encoders.options import EncoderOptions as EncoderOptions
from pipelines.models.networks.crn import ContextualRelationNetwork as ContextualRelationNetwork
from pipelines.models.networks.kinds import CRNSettings as CRNSettings
from pipelines.options import with_options as with_options
from pipelines.pretext.settings import AugmentationSettings as AugmentationSettings, PretextSettings as PretextSettings
from pipelines.progress import (
    ReportProgress as ReportProgress,
    ReportVideo as ReportVideo,
    TrainingProgress as TrainingProgress,
    VideoProgress as VideoProgress,
    VideoResult as VideoResult,
)
from pipelines.scenes import (
    Line as Line,
    Scene as Scene,
    SceneData as SceneData,
    Segment as Segment,
    Shot as Shot,
    Transition as Transition,
    VideoFacts as VideoFacts,
)
from pipelines.settings import (
    Compute as Compute,
    Grouping as Grouping,
    Indexed as Indexed,
    Matching as Matching,
    OutputSettings as OutputSettings,
    Parallel as Parallel,
    Reading as Reading,
    Resampling as Resampling,
    RunSettings as RunSettings,
    SceneSelection as SceneSelection,
    ScenesOutput as ScenesOutput,
    ScoredData as ScoredData,
    TrainingData as TrainingData,
)
from pipelines.stages.baseline import baseline as baseline
from pipelines.stages.build_index import (
    IndexReport as IndexReport,
    IndexSettings as IndexSettings,
    SplitStatistics as SplitStatistics,
    build_index as build_index,
)
from pipelines.stages.encode import encode_shots as encode_shots
from pipelines.stages.export import ExportResult as ExportResult, export as export
from pipelines.stages.extract_keyframes import (
    ExtractSettings as ExtractSettings,
    extract_keyframes as extract_keyframes,
)
from pipelines.stages.extract_sound import extract_sound as extract_sound
from pipelines.stages.figure import (
    BoundarySettings as BoundarySettings,
    Legend as Legend,
    PseudoBoundarySettings as PseudoBoundarySettings,
    draw_boundaries as draw_boundaries,
    draw_curves as draw_curves,
    draw_pseudo_boundaries as draw_pseudo_boundaries,
)
from pipelines.stages.finetune import (
    FinetuneResult as FinetuneResult,
    FinetuneSettings as FinetuneSettings,
    Hyperparameters as Hyperparameters,
    finetune as finetune,
)
from pipelines.stages.learn import LearnResult as LearnResult, learn as learn
from pipelines.stages.models import (
    ListedModel as ListedModel,
    import_checkpoint as import_checkpoint,
    list_models as list_models,
)
from pipelines.stages.predict import (
    PredictSettings as PredictSettings,
    load_model as load_model,
    predict as predict,
    predict_file as predict_file,
    predict_videos as predict_videos,
)
from pipelines.stages.predict.model import SceneModel as SceneModel
from pipelines.stages.pretrain import (
    PretrainResult as PretrainResult,
    PretrainSettings as PretrainSettings,
    pretrain as pretrain,
)
from pipelines.stages.regroup import Look as Look, regroup as regroup
from pipelines.stages.report import report as report
from pipelines.stages.reproduce import (
    Measured as Measured,
    ReproduceResult as ReproduceResult,
    ReproduceSettings as ReproduceSettings,
    RowResult as RowResult,
    TableResult as TableResult,
    reproduce as reproduce,
)
from pipelines.stages.review import ReviewResult as ReviewResult, review as review
from pipelines.stages.save_images import SavedImage as SavedImage, save_images as save_images
from pipelines.stages.scene_list import SceneList as SceneList, load_scenes as load_scenes
from pipelines.stages.score import (
    Comparison as Comparison,
    Representation as Representation,
    ScoreResult as ScoreResult,
    ScoreSettings as ScoreSettings,
    SeedSpread as SeedSpread,
    compare as compare,
    score as score,
)
from pipelines.stages.settings import (
    BaselineSettings as BaselineSettings,
    EncodeSettings as EncodeSettings,
    ExportSettings as ExportSettings,
    ImageSettings as ImageSettings,
    LearnSettings as LearnSettings,
    RegroupSettings as RegroupSettings,
    ReportSettings as ReportSettings,
    ReviewSettings as ReviewSettings,
    SoundSettings as SoundSettings,
    SplitSettings as SplitSettings,
)
from pipelines.stages.split import Clip as Clip, split as split
from pipelines.stores.index import Index as Index
from pipelines.training.jobs import Machines as Machines
from pipelines.video.shots import KeyframedShot as KeyframedShot
