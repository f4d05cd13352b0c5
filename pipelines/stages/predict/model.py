"""Models that predict the scenes of videos: loaded once, used for any number of videos."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from pipelines import __version__, processes
from pipelines.errors import explain_missing_extra, suggestion
from pipelines.models.encoders import EncoderOptions
from pipelines.models.opening import OpenedModel, open_model
from pipelines.options import resolve_settings, with_options
from pipelines.progress import ReportProgress, no_progress
from pipelines.settings import DETECTOR_NAMES, VIDEO_OPTIONS, Reading
from pipelines.stages.scene_list import SceneList
from pipelines.stages.settings import PredictSettings
from pipelines.video.inputs import fingerprint, modified, safe_id, unchanged
from pipelines.video.shots import KeyframedShot, ReaderSettings, VideoProcess

if TYPE_CHECKING:  # start-up time: OpenCV, and torch for most models
    from pipelines.stages.option_types import VideoOptions
    from pipelines.stages.predict.scoring import LoadedModel
    from pipelines.video.series import Episode


class SceneModel:
    """Model and encoder for any number of videos, used by one thread at a time.

    ``settings`` name the model and are the defaults for `predict`; ``cores`` is the number of processor cores for a
    video (None: all). Weights are loaded by `load`, or else while the first video is read. Raises StoreError, one line,
    for a model that is missing or damaged."""

    def __init__(self, settings: PredictSettings | None = None, cores: int | None = None) -> None:
        self.settings = resolve_settings(PredictSettings, settings, {})
        self._cores = cores or processes.cores()
        self._opened = open_model(self.settings.model)

    def load(self) -> SceneModel:
        """Load the weights now. Raises BasslError, one line, for a model or encoder that cannot be used."""
        _ = self._loaded
        return self

    def predict(
        self,
        video: Path | str,
        *,
        progress: ReportProgress | bool | None = None,
        on_shot: Callable[[KeyframedShot], None] | None = None,
        on_episode: Callable[[Episode], None] | None = None,
        **options: Unpack[VideoOptions],
    ) -> SceneList:
        """Find the scenes of a video, like :func:`bassl.predict`. ``options``: fields of `Reading` and `Grouping`, for
        this video; ``on_episode`` is called with hashes of its frames. Raises BasslError for a video, model or shot
        list that cannot be used, ValueError for an option that no video can satisfy, and TypeError for an option of the
        model, such as the encoder; each one line."""
        if unknown := sorted(options.keys() - set(VIDEO_OPTIONS)):
            problem = f"{unknown[0]} is not an option of a video (load_model takes model, encoder and device)"
            raise TypeError(problem + suggestion(unknown[0], VIDEO_OPTIONS))
        settings, video = with_options(self.settings, **options), Path(video)
        if progress is True:
            from pipelines.outputs.bars import shown_stage  # start-up time: rich

            with shown_stage(video.name) as bar:
                return self.predict(video, progress=bar, on_shot=on_shot, on_episode=on_episode, **options)
        report = progress or no_progress
        thumbnails: list[bytes] = []

        def observed(shots: Iterable[KeyframedShot]) -> Iterator[KeyframedShot]:
            for shot in shots:
                thumbnails.append(thumbnail(shot.keyframes[len(shot.keyframes) // 2]))
                if on_shot is not None:
                    on_shot(shot)
                yield shot

        reader_settings = replace(
            model_reader_settings(self._opened, settings.reading),
            threads=self._cores,
            subtitles=settings.reading.subtitles or True,
            subtitle_encoding=settings.reading.subtitle_encoding,
            silence=settings.reading.silence,
            hashes=on_episode is not None,
        )
        report("reading", 0.0, None)
        # From now on a separate process reads the video, while this one imports and loads what it needs.
        with unchanged(video), VideoProcess(video, reader_settings, partial(report, "reading")) as reading:
            from pipelines.models.calibration import Calibration  # start-up time: NumPy
            from pipelines.models.scenes import raise_at_black, with_grouping  # start-up time: NumPy
            from pipelines.outputs.images import thumbnail  # start-up time: OpenCV

            identity: dict[str, Any] = {"fingerprint": fingerprint(video), "modified": modified(video)}
            shots = self._loaded.scored_shots(observed(reading), self._cores, report)
        if on_episode is not None and reading.episode is not None:
            on_episode(reading.episode)
        grouping, warnings = settings.grouping, [*reading.warnings]
        if grouping.threshold is None and grouping.scenes is None and self._loaded.model.calibration == Calibration():
            problem = f"{self._opened.file}: its scores are not calibrated: 0.5 may give no scene end, or far too many"
            warnings.append(f"{problem}; set `threshold` or `scenes`, or train with videos to validate on")
        facts = replace(reading.facts, path=str(video), id=safe_id(video.stem), **identity)
        shots = raise_at_black(shots, reading.segments)
        values = facts, self.record(settings), shots, (), reading.lines, reading.segments
        scenes = with_grouping(SceneList(*values, thumbnails=tuple(thumbnails)), grouping.resolved())
        warnings += scenes.warnings
        scenes = replace(scenes, video=replace(facts, path=str(video.absolute())), warnings=tuple(warnings))
        if settings.describe is not None:
            report("describing", 0.0, None)
            from pipelines.outputs.images import described  # start-up time: Pillow

            scenes = described(scenes, thumbnails, settings.describe)
        return scenes

    def record(self, settings: PredictSettings) -> dict[str, Any]:
        """Return everything that a result with these settings depends on, as plain JSON values."""
        encoder = self._loaded.encoder
        reading = vars(settings.reading) | dict(zip(("start", "end"), settings.reading.part, strict=True))
        del reading["duration"]
        values = reading | {"model": settings.model} | settings.grouping.resolved()
        if settings.encoder_options != EncoderOptions():
            values["encoder_options"] = asdict(settings.encoder_options)
        return {
            "bassl": __version__,
            **{name: str(value) if isinstance(value, Path) else value for name, value in values.items()},
            "detector": None if reading["shots"] else model_reader_settings(self._opened, settings.reading).detector,
            "encoder": encoder.name,
            "encoder_id": encoder.id,
            "model_id": self._opened.digest,
            "device": encoder.device,
            "precision": encoder.precision,
        }

    @cached_property
    @explain_missing_extra("this model or encoder")
    def _loaded(self) -> LoadedModel:
        from pipelines.stages.predict.scoring import load  # start-up time: OpenCV, and torch for most models

        return load(self._opened, self.settings)


def model_reader_settings(opened: OpenedModel, reading: Reading) -> ReaderSettings:
    """Return how to read videos: as for the keyframes that the model was trained on, except where ``reading`` differs.
    Raises StoreError, one line, for a header without these facts."""
    facts = opened.keyframe_facts
    start, end = reading.part
    detector = reading.detector or facts.get("detector") or DETECTOR_NAMES[0]
    names = ["lines", "keyframes"]
    if detector == facts.get("detector"):  # options of the model's own detector
        names += [name for name in ("detector_threshold", "min_shot") if getattr(reading, name) is None]
    options: dict[str, Any] = {name: getattr(reading, name) for name in ("detector_threshold", "min_shot", "shots")}
    options |= {name: facts[name] for name in names if facts.get(name) is not None}
    return ReaderSettings(detector, start=start, end=end, **options)
