"""Cutting a film into files that appear together."""

from __future__ import annotations

import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pipelines.errors import BasslError, VideoError
from pipelines.files import new_files
from pipelines.outputs.exports.chapters import matroska_chapters
from pipelines.outputs.exports.segments import segments_of
from pipelines.outputs.names import file_names, padded_number
from pipelines.progress import ReportProgress
from pipelines.scenes import SceneList
from pipelines.stages.split.result import Piece
from pipelines.stages.split.settings import SplitSettings
from pipelines.video.cutting import (
    H264,
    copy_scenes,
    copy_with_chapters,
    encode_scenes,
    first_time,
    suffix_for,
)
from pipelines.video.decoding import VideoDecoder
from pipelines.video.films import fingerprint, listed_id


def write_pieces(film: Path, scenes: SceneList, settings: SplitSettings, progress: ReportProgress) -> tuple[Piece, ...]:
    """One file per scene, see :func:`pipelines.stages.split.split`."""
    name = listed_id(scenes.video, film)
    ending = suffix_for(film, "encoding" if settings.exact else "copies")
    rows = [
        {
            "VIDEO_NAME": name,
            "SCENE_NUMBER": padded_number(scene.index, len(scenes.scenes)),
            "SCENE_NAME": segment.name,
            "START_TIME": scene.start_timecode.replace(":", "-"),
            "END_TIME": scene.end_timecode.replace(":", "-"),
        }
        for scene, segment in zip(scenes.scenes, segments_of(scenes), strict=True)
    ]
    names = file_names(settings.filename, rows, ending, "$SCENE_NUMBER")
    end = scenes.video.duration
    if scenes.settings.get("end") is not None:  # the film may go on after the part that was read
        with VideoDecoder(film) as whole:
            end = math.inf if whole.declared_duration is None else max(end, whole.declared_duration)
    wide = [
        replace(scene, start=max(0.0, scene.start - settings.expand), end=min(end, scene.end + settings.expand))
        for scene in scenes.scenes
    ]
    scenes = replace(scenes, scenes=tuple(wide))
    folder = Path(f"{name}-scenes") if settings.folder is None else settings.folder
    with new_files(folder, names, (film,), settings.overwrite) as (targets, partials):
        if settings.exact:
            given = {"crf": settings.crf, "preset": settings.preset}
            options = {**H264, **{key: str(value) for key, value in given.items() if value is not None}}
            cuts = encode_scenes(film, scenes, partials, progress, options)
        else:
            cuts = copy_scenes(film, scenes, partials, progress)
    return tuple(
        Piece(scene.index, path, scene.start, scene.end, cut.early, cut.late)
        for scene, path, cut in zip(scenes.scenes, targets, cuts, strict=True)
    )


def write_copy(film: Path, scenes: SceneList, settings: SplitSettings, progress: ReportProgress) -> Path:
    """A copy with chapters, see :func:`pipelines.stages.split.write_chapters`."""
    name = listed_id(scenes.video, film)
    folder = Path(f"{name}-scenes") if settings.folder is None else settings.folder
    names = [f"{name}-chapters{suffix_for(film, 'chapters')}"]
    with new_files(folder, names, (film,), settings.overwrite) as (targets, partials):
        titles = [segment.name for segment in segments_of(scenes)]
        copy_with_chapters(film, scenes, titles, partials[0], progress)
    return targets[0]


def edit_chapters(film: Path, scenes: SceneList) -> str:
    """Chapters in the film itself, see :func:`pipelines.stages.split.set_chapters`."""
    known = fingerprint(film)
    if known is None or scenes.video.fingerprint != known:
        raise VideoError(
            f"{film}: is not the film of these scenes, or was changed since; leave --in-place out to write a copy"
        )
    if suffix_for(film, "chapters") not in (".mkv", ".webm") or film.suffix.lower() not in (".mkv", ".webm"):
        raise VideoError(f"{film}: is not a Matroska or WebM file; leave --in-place out to write a copy with chapters")
    program = shutil.which("mkvpropedit")
    if program is None:
        raise BasslError(
            "mkvpropedit (MKVToolNix) is not installed; leave --in-place out to write a copy with chapters"
        )
    first = float(
        first_time(film, "so it cannot have chapters")
    )  # chapters count from the clock's zero, scenes from the first frame
    moved = [replace(scene, start=scene.start + first, end=scene.end + first) for scene in scenes.scenes]
    with TemporaryDirectory() as folder:
        chapters = Path(folder) / "chapters.xml"
        chapters.write_text(matroska_chapters(replace(scenes, scenes=tuple(moved))), encoding="utf-8")
        command = [program, str(film.absolute()), "--chapters", str(chapters)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):  # 1: with warnings
        why = (run.stdout + run.stderr).strip().splitlines()[-1:]
        raise BasslError(f"{film}: mkvpropedit cannot write its chapters ({', '.join(why)})")
    changed = fingerprint(film)
    assert changed is not None
    return changed
