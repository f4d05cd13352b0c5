"""A video in, its scenes out: shots, key-frames, encodings, scores and scenes in one pass, in memory.

A model that was fine-tuned here says how its key-frames were made and which encoder read them, and a film is then read
just so: the scores are those that the stages one by one would give (key-frame store, feature store, model).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pipelines
from pipelines.errors import BasslError, StoreError
from pipelines.models.opening import open_model
from pipelines.progress import FilmProgress
from pipelines.scenes import SCHEMA, SCHEMA_VERSION, SceneList, Shot, group_shots
from pipelines.video.shots import ReaderSettings

if TYPE_CHECKING:  # the real imports stand where they are used: `bassl --help` must not wait for FFmpeg or torch
    import numpy as np
    from numpy.typing import NDArray

    from pipelines.models.boundary import BoundaryModel
    from pipelines.models.encoders import ShotEncoder
    from pipelines.video.shots import FilmedShot

Item = TypeVar("Item")

Progress = Callable[[str, float, float | None], None]
"""Called with what is being done, how much of it is done, and how much there is in all (None: not known)."""


@dataclass(frozen=True)
class PredictSettings:
    """Everything that decides what scenes are found."""

    detector: str | None = None
    """Shot detector: adaptive, content, histogram, hash, threshold or transnetv2. None is the one that the model's
    key-frames were made with; adaptive where it does not say."""
    shots: Path | None = None
    """A file of shots or cuts to use instead of a detector."""
    encoder: str | None = None
    """Shot encoder: efficientnet_lite0, resnet50, timm:NAME, or the folder of a pre-trained run. None is the model's
    own; efficientnet_lite0 for a model that reads any."""
    model: Path | None = None
    """A run folder or model file to score with; None is the model in the package."""
    threshold: float = 0.5
    """A shot with at least this score ends a scene."""
    min_scene: float = 0.0
    """No scene is shorter than this, in seconds."""
    scenes: int | None = None
    """Exactly this many scenes, whatever the threshold."""
    device: str = "auto"
    """Where the encoder runs: auto, cpu, cuda, ..."""


@dataclass(frozen=True)
class FilmScenes:
    """What became of one film of several.

    ``status`` is ``done``, ``kept`` (its result was there) or ``failed`` with one line in ``error``. The duration is in
    seconds.
    """

    video_id: str
    film: Path
    output: Path
    status: Literal["done", "kept", "failed"]
    scenes: int = 0
    shots: int = 0
    duration: float = 0.0
    warnings: tuple[str, ...] = ()
    error: str = ""


def predict(
    video: Path | str,
    settings: PredictSettings = PredictSettings(),
    progress: Progress | None = None,
    on_shot: Callable[[FilmedShot], None] | None = None,
) -> SceneList:
    """Find the scenes of a video.

    Args:
        video: any file that FFmpeg's libraries read.
        settings: how; the defaults need neither network nor GPU.
        progress: told how far the film has been read, in seconds.
        on_shot: given each shot with its key-frames as it is found, for a storyboard.

    Returns:
        shots with scores, and the scenes that they make.

    Raises:
        BasslError: one line, for a video, model, shot list or setting that cannot be used.

    Example::

        from pipelines.stages import predict

        result = predict("movie.mp4")
        for scene in result.scenes:
            print(scene.start_timecode, scene.end_timecode, scene.confidence)
        result.save("scenes.json")
    """
    from pipelines.models.scene_ends import check_choice

    check_choice(settings.threshold, settings.min_scene, settings.scenes)
    # How a film is read for the model in the package is known without it: reading then begins at once, in a process of
    # its own, while this one imports torch.
    scoring = None if settings.model is None else _load(settings)
    reading = ReaderSettings(settings.detector or _DETECTOR, settings.shots) if scoring is None else scoring.reading
    return _scenes_of(Path(video), settings, reading, lambda: scoring or _load(settings), progress, on_shot)


def predict_films(
    inputs: Sequence[Path | str],
    output: Path,
    settings: PredictSettings = PredictSettings(),
    overwrite: bool = False,
    storyboards: Path | None = None,
    pages: bool = False,
    progress: Callable[[FilmProgress[FilmScenes]], None] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> list[FilmScenes]:
    """Find the scenes of films, each into a file of its own.

    A film whose file is there already, made with the same settings and model, is not done again.

    Args:
        inputs: files, folders and glob patterns.
        output: folder of the files, ``<video id>.json``, with ids as `bassl extract-keyframes` gives them.
        settings: how.
        overwrite: do again what is done.
        storyboards: folder of pictures, ``<video id>.png``.
        pages: also write ``<video id>.html`` there, a page to look at the scenes and to correct them.
        progress: told of each film.
        on_start: told the number of films.

    Returns:
        one result a film, in the order of the films' names.

    Raises:
        BasslError: for inputs, a model or settings that cannot be used at all. Faults of single films are in their
            results.
    """
    from pipelines.files import check_writable
    from pipelines.models.scene_ends import check_choice
    from pipelines.video.films import find_films, video_ids

    check_choice(settings.threshold, settings.min_scene, settings.scenes)
    films = find_films(inputs)
    if settings.shots is not None and len(films) > 1:
        raise BasslError(f"{settings.shots}: is a list of shots of one film, and {len(films)} films are given")
    names = video_ids(films)
    for folder, ending in ((output, "json"), (output, "html"), (storyboards, "png")):
        if folder is not None:
            check_writable(folder / f"{names[0]}.{ending}")
    tell = progress or (lambda state: None)
    if on_start is not None:
        on_start(len(films))
    scoring = _load(settings)
    results = []
    for film, name in zip(films, names, strict=True):
        result = FilmScenes(name, film, output / f"{name}.json", "failed")
        board = None if storyboards is None else storyboards / f"{name}.png"
        page = output / f"{name}.html" if pages else None
        try:
            whole = all(path is None or path.exists() for path in (result.output, board, page))
            if whole and not overwrite:
                result = _kept(result, _record(settings, scoring))
            elif not overwrite and _was_corrected(result.output):
                raise BasslError(
                    f"{result.output}: was corrected by hand; `bassl report` makes its page, --overwrite does it again"
                )
            else:
                result = _predict_one(result, board, page, settings, scoring, tell)
        except BasslError as error:
            result = replace(result, error=str(error))
        results.append(result)
        tell(FilmProgress(name, result=result))
    return results


_DETECTOR = "adaptive"
# What decides a result: what is not the same makes another.
_DECIDING = ("detector", "shots", "encoder_id", "model_id", "threshold", "min_scene", "scenes")


@dataclass(frozen=True, eq=False)
class _Scoring:
    """A model with the encoder that it reads, how films are to be read for it, and a digest of its file."""

    model: BoundaryModel
    encoder: ShotEncoder
    reading: ReaderSettings
    quality: int | None
    model_id: str


def _load(settings: PredictSettings) -> _Scoring:
    """The model, and all that it says of how its features were made.

    Raises:
        BasslError: one line, where that cannot be done with a film, or is not what was asked for.
    """
    from pipelines.models.encoders import KEYFRAMES

    opened = open_model(settings.model)
    model, file = opened.boundary_model(), opened.file
    keyframes = model.keyframes or KEYFRAMES
    made = {name: model.pictures.get(name) for name in ("lines", "quality", "detector")}
    lines, quality, detector = made["lines"], made["quality"], made["detector"]
    if not isinstance(lines, int | None) or not isinstance(quality, int | None) or not isinstance(detector, str | None):
        raise StoreError(f"{file}: does not say how its key-frames were made: {made}; get or make the model again")
    reading = ReaderSettings(settings.detector or detector or _DETECTOR, settings.shots, keyframes)
    if lines is not None:
        reading = replace(reading, lines=lines)
    encoder = _encoder(settings, model, keyframes, file)
    if model.width not in (None, encoder.width):
        raise BasslError(
            f"{file}: reads features of width {model.width}, and those of {encoder.id} have {encoder.width}"
        )
    return _Scoring(model, encoder, reading, quality, opened.digest)


def _encoder(settings: PredictSettings, model: BoundaryModel, keyframes: int, file: Path) -> ShotEncoder:
    from pipelines.models.encoders import DEFAULT_ENCODER, INPUT_SIZE, encoder_of_id, load_encoder, named_encoder
    from pipelines.models.torch_encoders import rebuild_encoder

    if model.encoder is None:
        return load_encoder(settings.encoder or DEFAULT_ENCODER, settings.device, keyframes)
    # A name means published weights; those that a model brings were trained further.
    names = (
        {model.encoder} if model.encoder_weights else {model.encoder, model.encoder_name, named_encoder(model.encoder)}
    )
    if settings.encoder is not None and settings.encoder not in names:
        raise BasslError(
            f"{file}: was trained on features of {model.encoder} and cannot read those of {settings.encoder}; leave "
            "--encoder out"
        )
    if not model.encoder_weights:
        return encoder_of_id(model.encoder, settings.device, keyframes, str(file))
    try:
        encoder = rebuild_encoder(
            model.encoder_name or "", model.encoder_weights, settings.device, keyframes, model.input_size or INPUT_SIZE
        )
    except ValueError as error:
        raise StoreError(f"{file}: its shot encoder is no {model.encoder_name}; get or make the model again") from error
    except BasslError as error:
        raise BasslError(f"{file}: {error}") from error
    if encoder.id != model.encoder:
        raise StoreError(
            f"{file}: was trained on features of {model.encoder}, and its shot encoder is {encoder.id} here; use the "
            "bassl that made it, or make it again"
        )
    return encoder


def _scenes_of(
    video: Path,
    settings: PredictSettings,
    how: ReaderSettings,
    load: Callable[[], _Scoring],
    progress: Progress | None,
    on_shot: Callable[[FilmedShot], None] | None,
) -> SceneList:
    from pipelines.video.film_process import FilmProcess

    tell = progress or (lambda stage, done, total: None)
    reading = FilmProcess(video, how, lambda done, total: tell("reading", done, total))
    with reading:
        import numpy as np

        from pipelines.models.encoders import encode_groups
        from pipelines.models.scene_ends import choose_scene_ends
        from pipelines.processes import cores

        scoring = load()
        encoder = scoring.encoder
        ranges: list[tuple[int, int, float, float]] = []
        features: list[NDArray[np.float32]] = []
        threads = 1 if encoder.on_gpu else max(1, cores() // 2)  # the film's process has the others
        groups = batched(reading, encoder.shots_at_a_time)
        with closing(encode_groups(encoder, groups, partial(_prepared, scoring), threads)) as encoded:
            for group, values in encoded:
                features.append(values)
                for shot in group:
                    ranges.append((shot.start_frame, shot.end_frame, shot.start, shot.end))
                    if on_shot is not None:
                        on_shot(shot)
    tell("scoring", 0.0, None)
    ends_of_shots = np.array([end for *_, end in ranges])
    durations = np.array([end - start for *_, start, end in ranges])
    scores = scoring.model.score(np.concatenate(features), durations)
    shots = tuple(Shot(i, *r, score=float(p)) for i, (r, p) in enumerate(zip(ranges, scores, strict=True)))
    chosen = choose_scene_ends(scores, ends_of_shots, settings.threshold, settings.min_scene, settings.scenes)
    return SceneList(
        video=reading.facts,
        settings=_record(settings, scoring),
        shots=shots,
        scenes=group_shots(shots, chosen),
        warnings=tuple(reading.warnings),
    )


def _prepared(scoring: _Scoring, shots: Sequence[FilmedShot]) -> list[list[NDArray[np.uint8]]]:
    """The key-frames of shots as the encoder takes them, through the JPEG that a store would keep of each."""
    from pipelines.stores.jpeg import from_jpeg, to_jpeg

    def prepared(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if scoring.quality is not None:
            picture = from_jpeg(to_jpeg(picture, scoring.quality))
        return scoring.encoder.prepare(picture)

    return [[prepared(picture) for picture in shot.keyframes] for shot in shots]


def _predict_one(
    film: FilmScenes,
    board: Path | None,
    page: Path | None,
    settings: PredictSettings,
    scoring: _Scoring,
    tell: Callable[[FilmProgress[FilmScenes]], None],
) -> FilmScenes:
    """One film of several, written."""
    from pipelines.outputs.film_pictures import PicturedScenes

    pictured = PicturedScenes(board, page)
    found = _scenes_of(
        film.film,
        settings,
        scoring.reading,
        lambda: scoring,
        lambda stage, done, total: tell(FilmProgress(film.video_id, done, total)) if stage == "reading" else None,
        pictured.add,
    )
    pictured.save(found, film.film, film.output)
    found.save(film.output)
    return replace(
        film,
        status="done",
        scenes=len(found.scenes),
        shots=len(found.shots),
        duration=found.video.duration,
        warnings=found.warnings,
    )


def _kept(film: FilmScenes, settings: Mapping[str, Any]) -> FilmScenes:
    """The result of a film that need not be done again.

    Raises:
        StoreError: one line, for a file that is something else, or was made in another way.
    """
    remedy = "--overwrite makes it again"
    try:
        content = json.loads(film.output.read_bytes())
        if (content["schema"], content["version"]) != (SCHEMA, SCHEMA_VERSION):
            raise ValueError
        before, counts = content["settings"], (len(content["scenes"]), len(content["shots"]))
        duration = float(content["video"]["duration"])
        other = [name for name in _DECIDING if before.get(name) != settings[name]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{film.output}: is not a scenes.json of this version; {remedy}") from error
    if other:
        listed = ", ".join(f"{name.removesuffix('_id')} {before.get(name)} and not {settings[name]}" for name in other)
        raise StoreError(f"{film.output}: was made with other settings ({listed}); {remedy}")
    return replace(film, status="kept", scenes=counts[0], shots=counts[1], duration=duration)


def _was_corrected(path: Path) -> bool:
    """Whether a file is a ``scenes.json`` that somebody corrected on its page."""
    try:
        corrected: bool = json.loads(path.read_bytes())["settings"].get("edited_by_hand") is True
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return corrected


def batched(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Tuples of ``size`` items, the last perhaps shorter (``itertools.batched`` of Python 3.12)."""
    rest = iter(items)
    while batch := tuple(islice(rest, size)):
        yield batch


def _record(settings: PredictSettings, scoring: _Scoring) -> dict[str, Any]:
    """Everything that made a result, as plain JSON values."""
    named = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(settings).items()}
    encoder = scoring.encoder
    return {
        "bassl": pipelines.__version__,
        **named,
        "detector": None if settings.shots is not None else scoring.reading.detector,
        "encoder": encoder.name,
        "encoder_id": encoder.id,
        "model_id": scoring.model_id,
        "device": encoder.device,
        "precision": encoder.precision,
    }
