"""Writing the keyframe store of a film while it is read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.errors import VideoError
from pipelines.files import os_reason
from pipelines.scenes import VideoFacts
from pipelines.stages.extract_keyframes.child import FilmTask
from pipelines.stores.jpeg import to_jpeg
from pipelines.stores.keyframes import StoredShot, write_keyframes
from pipelines.video.reader import FilmReader
from pipelines.video.shots import FilmedShot


class InexactError(Exception):
    """Frames that FFmpeg fills in for lost data depend on its number of threads: only one thread is reproducible."""


def write_store(task: FilmTask, reader: FilmReader, shots: Iterable[FilmedShot]) -> None:
    """Write the keyframe store of a film from all shots of its reader. Raises InexactError for a damaged film that
    several threads decoded, BasslError for a film that cannot be read, or a store that cannot be written."""

    def describe() -> tuple[VideoFacts, dict[str, Any]]:
        if task.threads > 1 and not reader.exact:
            raise InexactError
        facts = replace(reader.facts, path=task.film.name)  # the same film elsewhere gives the same store
        return facts, _describe_file(task.film)

    write_keyframes(task.store, _compress_shots(shots, task.settings.quality), describe, task.store_settings)


def _compress_shots(shots: Iterable[FilmedShot], quality: int) -> Iterator[StoredShot]:
    for shot in shots:
        try:
            jpegs = tuple(to_jpeg(picture, quality) for picture in shot.keyframes)
        except ValueError as error:
            raise VideoError(f"a keyframe of {error}") from error
        frames, seconds = (shot.start_frame, shot.end_frame), (shot.start, shot.end)
        yield StoredShot(frames, seconds, shot.keyframe_indices, jpegs, shot.transition)


def _describe_file(film: Path) -> dict[str, Any]:
    try:
        with film.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise VideoError(f"{film}: cannot be read again ({os_reason(error)})") from error
    return {"name": film.name, "bytes": size, "sha256": digest}
