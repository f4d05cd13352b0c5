"""Replacing results: only in the version that was read, and without losing what a person corrected."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from shlex import quote
from stat import S_ISREG
from typing import TypeVar

from pipelines.errors import BasslError, ChangedError, DatasetError, StoreError
from pipelines.files import MOST_RESULT_BYTES, STDIO, atomic_file, is_file, locked, os_errors, real, write_atomically
from pipelines.results.finding import beside
from pipelines.scenes import Scene, SceneData, encode_json, shot_ranges
from pipelines.settings import Grouping, ScenesOutput

S = TypeVar("S", bound=SceneData)

MOST_WAIT = 10  # seconds that another process may take to replace a result


def result_version(path: Path) -> str:
    """Return a digest of a ``scenes.json`` as it is now, for `replace_result`; empty if there is no such file. Raises
    BasslError for one that cannot be read now: it may be newer, and is not gone."""
    with os_errors(path), suppress(FileNotFoundError, NotADirectoryError):
        if S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return sha256(file.read(MOST_RESULT_BYTES + 1)).hexdigest()
    return ""


def replace_result(path: Path, scenes: SceneData, version: str) -> None:
    """Write scenes, unless the file changed since the caller took its ``version`` with `result_version`, before it read
    the file; both under one lock. Raises ChangedError, or BasslError if it cannot be written."""
    content = encode_json(scenes.to_dict(path.parent), path)
    if path == STDIO:
        write_atomically(path, content)
        return
    with os_errors(path, "cannot be written"), ExitStack() as lock, atomic_file(path) as partial:
        partial.write_bytes(content)
        lock.enter_context(locked(path.parent, MOST_WAIT))  # until the file is renamed
        check_version(path, version)


def check_version(path: Path, version: str) -> None:
    """Check that a ``scenes.json`` still has the ``version`` that a caller took. Raises ChangedError."""
    if result_version(path) not in (version, ""):  # one that was removed loses nothing
        raise ChangedError(f"{path}: was changed meanwhile, and is left as it is; run the command again")


def note_on_page(result: Path, renewed: Path | None = None) -> tuple[str, ...]:
    """Return one line about an outdated page beside a ``scenes.json`` whose scenes changed, unless it is ``renewed``;
    no line if there is none. A page is never rewritten unasked: its corrections may exist only in the browser."""
    page = beside(result, ".html")
    if page == renewed or not is_file(page):
        return ()
    return (f"{page} still shows the scenes before; renew it with: bassl report {quote(str(result))}",)


def is_corrected(scenes: SceneData) -> bool:
    """Return whether a person named scenes, pinned shots, or made scenes that do not follow from scores and pins."""
    from pipelines.models.scenes import choose_scenes  # start-up time: NumPy

    if scenes.settings.get("edited_by_hand") is True or any(shot.is_pinned_by_hand for shot in scenes.shots):
        return True
    if any(scene.is_named_by_hand for scene in scenes.scenes):
        return True
    try:
        predicted = choose_scenes(scenes.shots, **Grouping().resolved(scenes.settings), segments=scenes.segments)
    except (BasslError, TypeError, ValueError):
        return True
    return shot_ranges(predicted) != shot_ranges(scenes.scenes)


def without_corrections(scenes: S) -> S:
    """Return scenes without a person's pins and names; the scenes stay until they are grouped again."""
    shots = (replace(shot, pinned=None) if shot.is_pinned_by_hand else shot for shot in scenes.shots)
    unnamed = (replace(scene, name=None) if scene.is_named_by_hand else scene for scene in scenes.scenes)
    settings = {name: value for name, value in scenes.settings.items() if name != "edited_by_hand"}
    return replace(scenes, shots=tuple(shots), scenes=tuple(unnamed), settings=settings)


def check_corrected(scenes: SceneData, file: str, remedy: str = "") -> None:
    """Check that scenes from ``file`` are no prediction as it was made. Raises BasslError with a ``remedy``."""
    if "threshold" in scenes.settings and not is_corrected(scenes):
        correction = "correct its scenes on the page of `bassl review`, or name one if all are right"
        raise BasslError(f"{file}: was not corrected; {correction}{remedy}")


def read_replaceable(path: Path, video: Path, fingerprint: str | None, replaces: ScenesOutput) -> SceneData | None:
    """Read the prediction of ``video`` at ``path``; None without a ``scenes.json``, or one that ``overwrite`` replaces.
    A prediction belongs to the video with its fingerprint or path. Raises StoreError for a file that may not be
    replaced: without ``overwrite``, anything but a prediction of this video; without ``discard_corrections``, also
    scenes of another video that were corrected by hand."""
    if path == STDIO or not path.exists():
        return None
    from pipelines.datasets.scenes_json import read_scene_list  # start-up time: NumPy

    remedy = "name another file, or replace it with `overwrite=True`"
    try:
        existing = read_scene_list(path)
        if "threshold" not in existing.settings:
            raise DatasetError(f"{path}: was not made by `bassl predict`")
    except DatasetError as error:
        if replaces.overwrite:
            return None
        raise StoreError(f"{error}; {remedy}") from error
    has_fingerprint = fingerprint is not None and existing.video.fingerprint == fingerprint
    if has_fingerprint or real(Path(existing.video.path)) == real(video):
        return existing
    is_kept = is_corrected(existing) and not replaces.discard_corrections
    if replaces.overwrite and not is_kept:
        return None
    remedy += " and `discard_corrections=True`: it was corrected by hand" if is_kept else ""
    raise StoreError(f"{path}: contains the scenes of another video, not of {video}; {remedy}")


def needs_name(scenes: SceneData, scene: Scene, command: str) -> bool:
    """Return whether the program of `describe` is to name a scene: without a name by people or by this program."""
    is_by_another = scene.named_by == "program" and scenes.settings.get("described_by") != command_digest(command)
    return scene.lacks_name or is_by_another


def command_digest(command: str) -> str:
    """Return what a result records of a command, whose words may be private."""
    return sha256(command.encode("utf-8", "surrogateescape")).hexdigest()[:16]
