"""Fine-tuning on few videos: the network that fits few labels, and the built-in model on the same validation videos."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipelines.errors import BasslError, count
from pipelines.models.encoder_loading import encoder_for
from pipelines.models.opening import open_model
from pipelines.settings import Compute, Indexed, RunSettings
from pipelines.stages.encode import encode_shots
from pipelines.stages.finetune.data import labelled_shots
from pipelines.stages.finetune.learner import measure_videos
from pipelines.stages.finetune.settings import FinetuneSettings
from pipelines.stages.settings import EncodeSettings
from pipelines.stores.features import features_of, find_features
from pipelines.stores.index import Index
from pipelines.training.distributed import Process

# With the 816 of BBC and OVSD, relational has an AP of 46 to 48, the others 10 to 31 (docs/reproduce.md); the paper's
# transformer learned from MovieNet's, more than ten thousand.
_FEW_SCENE_ENDS = 2000
_FEW_SHOTS = 5000  # on which the comparison takes seconds, or minutes if they are to be encoded first


def few_labels(settings: FinetuneSettings, index: Index, train: Sequence[int]) -> str:
    """A line if another network fits the number of labels better; empty if not."""
    _, ends = labelled_shots(index, train)
    if settings.crn == "relational" or settings.end_to_end or settings.sound is not None or ends >= _FEW_SCENE_ENDS:
        return ""
    return (
        f"{count(ends, 'scene end')} in the training videos: so few labels fit `crn=relational`; "
        f"a network of the kind {settings.crn} may stay near chance"
    )


def measure_built_in(
    settings: FinetuneSettings, index: Index, videos: Sequence[int], process: Process, note: Callable[[str], None]
) -> tuple[dict[str, float], bool]:
    """Metrics of the built-in model on the validation videos, and whether it learned from some of them. No metrics if
    there are many shots, or neither features nor keyframes to make them of."""
    if not videos or len(index.rows(videos)) > _FEW_SHOTS:
        return {}, False
    model = open_model().boundary_model()
    try:
        stores = find_features(index, encoder_for(index, model.encoder), settings.feature_folder, videos)
        if not stores:
            if not index.keyframes or process.world_size > 1:
                return {}, False
            note(
                f"computes the features of the built-in model once, into {settings.feature_folder}, to compare with it"
            )
            compute = Compute(settings.compute.device, settings.compute.workers or None)
            encoding = EncodeSettings(Indexed(index.path), run=RunSettings(settings.feature_folder), compute=compute)
            stores = (encode_shots(encoding, process=process, videos=videos),)
        stored = features_of(index, stores, videos)
    except BasslError as error:
        note(f"not compared with the built-in model: {error}")
        return {}, False
    logits = []
    for video in videos:
        span = index.span(video)
        colour = None if stored.colour is None else stored.colour[span]
        logits.append(model.logits(stored.features[span], index.shot_seconds(video), colour))
    known = {index.video_ids[video] for video in videos} & set(model.training.get("trained_on", ()))
    return measure_videos(index, videos, logits, model.calibration), bool(known)


def comparison(own: dict[str, float], built_in: dict[str, float], videos: int, learned: bool) -> tuple[str, bool]:
    """A line that compares metrics on the validation videos, and whether the built-in model is better by AP."""

    def shown(metrics: dict[str, float]) -> str:
        return f"AP {100 * metrics['ap']:.1f}, F1 {100 * metrics.get('f1_calibrated', metrics['f1']):.1f}"

    worse = own["ap"] < built_in["ap"]
    line = f"on {count(videos, 'validation video')}: {shown(own)}; the built-in model: {shown(built_in)}"
    line += ", which learned from some of them" * learned
    return line + "; it is better on these: predict without `model`" * worse, worse
