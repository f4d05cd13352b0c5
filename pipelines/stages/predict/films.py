"""Prediction of films into files: one film, or many with what is done already left alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any

from pipelines.errors import BasslError, StoreError
from pipelines.files import check_inputs_kept, check_writable
from pipelines.outputs.exports import is_scenes_json, save
from pipelines.outputs.film_pictures import PicturedScenes
from pipelines.progress import FilmProgress
from pipelines.scenes import SCHEMA, SCHEMA_VERSION, SceneList
from pipelines.stages.predict.model import Progress, SceneModel
from pipelines.stages.predict.result import FilmScenes
from pipelines.stages.predict.settings import PredictSettings
from pipelines.video.films import find_films, fingerprint, video_ids

# What decides a result: what is not the same makes another.
_DECIDING = ("detector", "shots", "encoder_id", "model_id", "threshold", "min_scene", "scenes")


def predict_to_files(
    model: SceneModel,
    film: Path,
    output: Path | None,
    *,
    storyboard: Path | None = None,
    page: Path | None = None,
    progress: Progress | None = None,
    video_id: str | None = None,
    overwrite: bool = False,
) -> SceneList:
    """Find the scenes of a film and write what was asked for; the list of scenes last, so that it says all is there.

    Args:
        model: what predicts.
        film: the video.
        output: file to write, its format by its ending, see :func:`pipelines.outputs.exports.save`; None for none.
        storyboard: PNG of the scenes with their keyframes.
        page: HTML to look at the scenes and to correct them.
        progress: as for :func:`predict`.
        video_id: id of the film, where films of several folders share its name.
        overwrite: replace a ``scenes.json`` of another film, or one that was not left as `bassl predict` made it.

    Raises:
        BasslError: one line, for a film that cannot be used or a file that cannot be written.
    """
    check_inputs_kept((output, storyboard, page), (film, model.settings.shots, model.settings.model))
    if output is not None and is_scenes_json(output) and not overwrite:
        _check_replaceable(output, film)
    pictured = PicturedScenes(storyboard, page)
    found = model.predict(film, progress=progress, on_shot=pictured.add)
    if video_id is not None:
        found = replace(found, video=replace(found.video, id=video_id))
    pictured.save(found, film, output or Path("scenes.json"))
    if output is not None:
        save(found, output)
    return found


def predict_all(
    inputs: Sequence[Path | str],
    output: Path,
    settings: PredictSettings,
    *,
    overwrite: bool,
    storyboards: Path | None,
    pages: bool,
    progress: Callable[[FilmProgress[FilmScenes]], None],
    on_start: Callable[[int], None],
) -> list[FilmScenes]:
    """Find the scenes of films, each into a file of its own; see :func:`pipelines.stages.predict.predict_films`."""
    films = find_films(inputs)
    if settings.shots is not None and len(films) > 1:
        raise BasslError(f"{settings.shots}: is a list of shots of one film, and {len(films)} films are given")
    names = video_ids(films)
    for folder, ending in ((output, "json"), (output, "html"), (storyboards, "png")):
        if folder is not None:
            check_writable(folder / f"{names[0]}.{ending}")
            written = [folder / f"{name}.{ending}" for name in names]
            check_inputs_kept(written, (*films, settings.shots, settings.model))
    on_start(len(films))
    model = SceneModel(settings).load()
    results = []
    for film, name in zip(films, names, strict=True):
        result = FilmScenes(name, film, output / f"{name}.json", "failed")
        board = None if storyboards is None else storyboards / f"{name}.png"
        page = output / f"{name}.html" if pages else None
        try:
            whole = all(path is None or path.exists() for path in (result.output, board, page))
            if whole and not overwrite:
                result = _kept(result, model.record())
            else:
                found = predict_to_files(
                    model,
                    film,
                    result.output,
                    storyboard=board,
                    page=page,
                    progress=_of_film(name, progress),
                    video_id=name,
                    overwrite=overwrite,
                )
                result = replace(
                    result,
                    status="done",
                    scenes=len(found.scenes),
                    shots=len(found.shots),
                    duration=found.video.duration,
                    warnings=found.warnings,
                )
        except BasslError as error:
            result = replace(result, error=str(error))
        results.append(result)
        progress(FilmProgress(name, result=result))
    return results


def _of_film(name: str, progress: Callable[[FilmProgress[FilmScenes]], None]) -> Progress:
    def report(stage: str, done: float, total: float | None) -> None:
        if stage == "reading":
            progress(FilmProgress(name, done, total))

    return report


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
        same = _is_of(content["video"], film.film)
        before, counts = content["settings"], (len(content["scenes"]), len(content["shots"]))
        duration = float(content["video"]["duration"])
        other = [name for name in _DECIDING if before.get(name) != settings[name]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{film.output}: is not a scenes.json of this version; {remedy}") from error
    if not same:
        raise StoreError(f"{film.output}: holds the scenes of another film than {film.film}; {remedy}")
    if other:
        listed = ", ".join(f"{name.removesuffix('_id')} {before.get(name)} and not {settings[name]}" for name in other)
        raise StoreError(f"{film.output}: was made with other settings ({listed}); {remedy}")
    return replace(film, status="kept", scenes=counts[0], shots=counts[1], duration=duration)


def _is_of(video: Mapping[str, Any], film: Path) -> bool:
    """Whether the video of a ``scenes.json`` is this film; by its name where the file has no fingerprint."""
    if "fingerprint" in video:
        return bool(video["fingerprint"] == fingerprint(film))
    return PureWindowsPath(video["path"]).name == PureWindowsPath(film).name


def _check_replaceable(path: Path, film: Path) -> None:
    """Check that a new result may replace the file at ``path``, so that nobody's work is lost.

    Raises:
        StoreError: one line, where it is no prediction of this film, or was corrected by hand.
    """
    if not path.exists():
        return
    try:
        content = json.loads(path.read_bytes())
        settings = content["settings"]
        corrected = settings.get("edited_by_hand") is True or any("name" in scene for scene in content["scenes"])
        predicted = content["schema"] == SCHEMA and "model_id" in settings
        same = _is_of(content["video"], film)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        predicted = False
    remedy = "name another file, or replace it with --overwrite"
    if not predicted:
        raise StoreError(f"{path}: was not made by `bassl predict`; {remedy}")
    if corrected:
        raise StoreError(f"{path}: was corrected by hand (`bassl report` makes its page); {remedy}")
    if not same:
        raise StoreError(f"{path}: holds the scenes of another film than {film}; {remedy}")
