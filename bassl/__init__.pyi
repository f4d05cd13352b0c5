from pipelines import __version__ as __version__
from pipelines.errors import (
    BasslError as BasslError,
)
from pipelines.errors import (
    DatasetError as DatasetError,
)
from pipelines.errors import (
    StoreError as StoreError,
)
from pipelines.errors import (
    VideoError as VideoError,
)
from pipelines.scenes import (
    Scene as Scene,
)
from pipelines.scenes import (
    SceneList as SceneList,
)
from pipelines.scenes import (
    Shot as Shot,
)
from pipelines.scenes import (
    VideoFacts as VideoFacts,
)
from pipelines.stages.baseline import (
    BaselineSettings as BaselineSettings,
)
from pipelines.stages.baseline import (
    baseline as baseline,
)
from pipelines.stages.build_index import (
    IndexReport as IndexReport,
)
from pipelines.stages.build_index import (
    IndexSettings as IndexSettings,
)
from pipelines.stages.build_index import (
    build_index as build_index,
)
from pipelines.stages.encode import (
    EncodeSettings as EncodeSettings,
)
from pipelines.stages.encode import (
    encode_shots as encode_shots,
)
from pipelines.stages.export import (
    ExportResult as ExportResult,
)
from pipelines.stages.export import (
    ExportSettings as ExportSettings,
)
from pipelines.stages.export import (
    export as export,
)
from pipelines.stages.extract_keyframes import (
    ExtractSettings as ExtractSettings,
)
from pipelines.stages.extract_keyframes import (
    extract_keyframes as extract_keyframes,
)
from pipelines.stages.extract_sound import (
    SoundResult as SoundResult,
)
from pipelines.stages.extract_sound import (
    SoundSettings as SoundSettings,
)
from pipelines.stages.extract_sound import (
    extract_sound as extract_sound,
)
from pipelines.stages.figure import (
    BoundarySettings as BoundarySettings,
)
from pipelines.stages.figure import (
    CurveSettings as CurveSettings,
)
from pipelines.stages.figure import (
    FigureResult as FigureResult,
)
from pipelines.stages.figure import (
    PseudoBoundarySettings as PseudoBoundarySettings,
)
from pipelines.stages.figure import (
    SimilaritySettings as SimilaritySettings,
)
from pipelines.stages.figure import (
    draw_boundaries as draw_boundaries,
)
from pipelines.stages.figure import (
    draw_curves as draw_curves,
)
from pipelines.stages.figure import (
    draw_pseudo_boundaries as draw_pseudo_boundaries,
)
from pipelines.stages.figure import (
    draw_similarity as draw_similarity,
)
from pipelines.stages.finetune import (
    FinetuneResult as FinetuneResult,
)
from pipelines.stages.finetune import (
    FinetuneSettings as FinetuneSettings,
)
from pipelines.stages.finetune import (
    finetune as finetune,
)
from pipelines.stages.import_checkpoint import (
    export_checkpoint as export_checkpoint,
)
from pipelines.stages.import_checkpoint import (
    import_checkpoint as import_checkpoint,
)
from pipelines.stages.list_models import (
    ListedModel as ListedModel,
)
from pipelines.stages.list_models import (
    list_models as list_models,
)
from pipelines.stages.predict import (
    FilmScenes as FilmScenes,
)
from pipelines.stages.predict import (
    PredictSettings as PredictSettings,
)
from pipelines.stages.predict import (
    load_model as load_model,
)
from pipelines.stages.predict import (
    predict as predict,
)
from pipelines.stages.predict import (
    predict_file as predict_file,
)
from pipelines.stages.predict import (
    predict_films as predict_films,
)
from pipelines.stages.predict.model import SceneModel as SceneModel
from pipelines.stages.pretrain import (
    PretrainResult as PretrainResult,
)
from pipelines.stages.pretrain import (
    PretrainSettings as PretrainSettings,
)
from pipelines.stages.pretrain import (
    pretrain as pretrain,
)
from pipelines.stages.regroup import (
    RegroupSettings as RegroupSettings,
)
from pipelines.stages.regroup import (
    regroup as regroup,
)
from pipelines.stages.report import (
    ReportResult as ReportResult,
)
from pipelines.stages.report import (
    ReportSettings as ReportSettings,
)
from pipelines.stages.report import (
    report as report,
)
from pipelines.stages.reproduce import (
    ReproduceResult as ReproduceResult,
)
from pipelines.stages.reproduce import (
    ReproduceSettings as ReproduceSettings,
)
from pipelines.stages.reproduce import (
    reproduce as reproduce,
)
from pipelines.stages.score import (
    Comparison as Comparison,
)
from pipelines.stages.score import (
    ScoreResult as ScoreResult,
)
from pipelines.stages.score import (
    ScoreSettings as ScoreSettings,
)
from pipelines.stages.score import (
    compare as compare,
)
from pipelines.stages.score import (
    score as score,
)
from pipelines.stages.split import (
    Piece as Piece,
)
from pipelines.stages.split import (
    SplitSettings as SplitSettings,
)
from pipelines.stages.split import (
    split as split,
)
