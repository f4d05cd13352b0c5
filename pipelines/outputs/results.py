"""Results of videos, ``NAME.scenes.json``: their names, the files beside them, how a command's arguments select them,
and corrections by hand, which a command replaces only with `discard_corrections`."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path, PureWindowsPath
from shlex import quote

from pipelines.errors import BasslError, ChangedError, CorrectedError, DatasetError, StoreError, VideoError
from pipelines.files import (
    MOST_RESULT_BYTES,
    STDIO,
    atomic_file,
    is_file,
    locked,
    make_folder,
    os_errors,
    real,
    write_atomically,
)
from pipelines.outputs.exports import FORMATS, is_scenes_json
from pipelines.scenes import Scene, SceneData, encode_json, shot_ranges
from pipelines.settings import Grouping, ScenesOutput
from pipelines.video.inputs import find_videos, safe_id, video_at, video_ids

FOLDER = Path("scenes")
"""Default folder for the results of several videos."""
MOST_WAIT = 10
"""Seconds that another process may take to replace a result."""


def result_name(video_id: str) -> str:
    """Return the name of the ``scenes.json`` of a video."""
    return f"{video_id}.scenes.json"


def result_path(video: Path) -> Path:
    """Return the path of the ``scenes.json`` of one video, in the working folder."""
    return Path(result_name(safe_id(video.stem)))


def beside(result: Path, extension: str) -> Path:
    """Return the path of a file that belongs to a ``scenes.json``, such as a page or an export, with the same stem. It
    is in the working folder if the ``scenes.json`` is read from stdin."""
    return result.with_name(("scenes" if result == STDIO else result.stem) + extension)


def note_on_views(result: Path, renewed: Collection[Path | None] = ()) -> tuple[str, ...]:
    """Return one line about an outdated page or storyboard beside a ``scenes.json`` whose scenes changed, not counting
    those in ``renewed``; no line if there is none. A page is never rewritten unasked: its corrections may exist only in
    the browser."""
    page = beside(result, ".html")
    old = [path for path in (page, beside(result, ".png")) if path not in renewed and is_file(path)]
    if not old:
        return ()
    verb = "shows" if len(old) == 1 else "show"
    renewal = f"; renew the page with: bassl report {quote(str(result))}" if page in old else ""
    return (f"{' and '.join(map(str, old))} still {verb} the scenes before{renewal}",)


def is_video(source: Path) -> bool:
    """Return whether a source is a video by its name, not a ``scenes.json`` (a ``.json`` file or stdin)."""
    return source != STDIO and source.suffix.lower() != ".json"


def find_result(source: Path) -> Path:
    """Find the ``scenes.json`` of a video: in the working folder, beside the video, or in a folder ``scenes`` in either
    or in a folder above the video. It has the video's name, or also the suffix and names of folders, as the id of one
    of several videos of a name. If there is none, return the path where `bassl predict` writes it. Any other path is
    returned unchanged."""
    return _find(source, result_path(source).name) if is_video(source) else source


def _find(video: Path, usual: str) -> Path:
    """Find the result of a video that usually has this name: of several the one that belongs to the video."""
    above = [folder / FOLDER for folder in video.parents]
    places = list(dict.fromkeys((Path(), video.parent, FOLDER, *above)))
    by_name = [place / usual for place in places if is_file(place / usual)]
    others = [place / name for place in places for name in _long_names(video) if is_file(place / name)]
    if others or len(by_name) > 1:
        return next(filter(partial(_is_result_of, video=video), (*by_name, *others)), [*by_name, Path(usual)][0])
    return by_name[0] if by_name else Path(usual)


def _long_names(video: Path) -> list[str]:
    """Return the names of results of a video that is one of several of its name, see `video_ids`."""
    parts = video.parent.resolve().parts[1:]
    folders = ("_".join(parts[-depth:]) for depth in range(1, len(parts) + 1))
    names = [f"{folder}_{name}" for folder in folders for name in (video.stem, video.name)]
    return [result_name(safe_id(name)) for name in (video.name, *names)]


def _is_result_of(result: Path, video: Path) -> bool:
    from pipelines.datasets.scenes_json import read_scene_list  # start-up time: NumPy

    with suppress(DatasetError, VideoError):
        return video_at(video, read_scene_list(result).video) is not None
    return False


def known_ids(videos: Sequence[Path], ids: Sequence[str], folder: Path) -> list[str]:
    """Return the ids of videos for results in a folder: these, but of a video that has a result there the id that it
    had when this was made, before there were others of its name."""
    ids = list(ids)
    taken = set(ids)
    for i, video in enumerate(videos):
        if is_file(folder / result_name(ids[i])):
            continue
        for name in (result_path(video).name, *_long_names(video)):
            known = name.removesuffix(result_name(""))
            if known not in taken and is_file(folder / name) and _is_result_of(folder / name, video):
                taken.add(known)
                ids[i] = known
                break
    return ids


def existing_result(source: Path) -> Path:
    """Find the ``scenes.json`` of a video, or any other file, to read. Raises BasslError if there is none."""
    if is_video(source) and not is_file(source):
        raise BasslError(f"{source}: no such file")
    file = find_result(source)
    if file != STDIO and not os.path.exists(file):  # noqa: PTH110  # a name may be too long
        command = f"bassl predict {quote(str(source))}" if is_video(source) else f"bassl predict VIDEO `output={file}`"
        raise BasslError(f"{file}: no such file; make it with: {command}")
    return file


def expand_results(sources: Sequence[Path]) -> list[Path]:
    """Return the videos and ``scenes.json`` files that arguments of a command name, each result once.

    A folder stands for its results, else the results in its folder ``scenes``, else its videos. No argument means the
    only result in the working folder. Exports in JSON beside a result, which ``*.json`` matches, are left out. Raises
    BasslError, one line, for a folder without results, and for no argument if there is none or more than one."""
    if not sources:
        return [_only_result()]
    paths: list[Path] = []
    for source in sources:
        paths += _sources_in(source) if os.path.isdir(source) else [source]  # noqa: PTH112  # a name may be too long
    exports = {beside(source, form.extension) for source in paths for form in FORMATS.values()}
    by_result: dict[Path, Path] = {}
    for source in paths:
        if is_video(source) or source not in exports:
            by_result.setdefault(find_result(source), source)
    return list(by_result.values())


def _only_result() -> Path:
    results = _results_in(Path())
    if not results:
        raise BasslError("no scenes.json in this folder; name a video or a scenes.json, or run: bassl predict VIDEO")
    if len(results) > 1:
        names = ", ".join(map(str, results[:5])) + f" and {len(results) - 5:,} more" * (len(results) > 5)
        raise BasslError(f"there are {len(results):,} results; name one, several or their folder: {names}")
    return results[0]


def _results_in(folder: Path) -> list[Path]:
    for place in (folder, folder / FOLDER):
        if results := sorted({*place.glob("*.scenes.json"), *place.glob("scenes.json")}):
            return results
    return []


def _sources_in(folder: Path) -> list[Path]:
    """Return the results in a folder, or its videos; a video that shares its name with another is returned as its
    ``scenes.json``."""
    if results := _results_in(folder):
        return results
    try:
        videos = find_videos(folder)
    except VideoError as error:
        raise BasslError(f"{error} and no NAME.scenes.json") from error
    sources = [
        video if name == result_path(video).name else _find(video, name)
        for video, name in zip(videos, map(result_name, video_ids(videos)), strict=True)
    ]
    if not any(is_file(find_result(source)) for source in sources):
        raise BasslError(
            f"{folder}: its videos have no NAME.scenes.json; make them with: bassl predict {quote(str(folder))}"
        )
    return sources


def check_one_video(sources: Sequence[Path], video: Path | None) -> None:
    """Raise BasslError if one video is named for several results."""
    if len(sources) > 1 and video is not None:
        raise BasslError(f"{video}: is one video, but there are {len(sources)} results; leave `video` out")


def make_output_folder(sources: Sequence[Path], output: Path | None) -> None:
    """Make the output folder for several results, if ``output`` names one. Raises BasslError if ``output`` is the
    name of a file, or two results have the same name."""
    if len(sources) < 2 or output is None:
        return
    by_name: dict[str, Path] = {}
    for result in map(find_result, sources):
        if (other := by_name.setdefault(beside(result, "").name.casefold(), result)) != result:
            raise BasslError(
                f"{result} and {other}: have the same name, so they need separate folders; leave `output` out"
            )
    make_folder(output)


def read_prediction(path: Path, video: Path, fingerprint: str | None, replaces: ScenesOutput) -> SceneData | None:
    """Read the prediction of ``video`` at ``path``: None without a ``scenes.json``, or one that ``overwrite`` replaces.

    A prediction belongs to the video with its fingerprint or path, even if the file at that path was changed. Without a
    fingerprint it belongs to any video with the same name. Raises StoreError for a file that may not be replaced:
    without ``overwrite``, anything but a prediction of this video; without ``discard_corrections``, also scenes of
    another video that were corrected by hand.
    """
    if path == STDIO or not is_scenes_json(path) or not path.exists():
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
    facts = existing.video
    if facts.fingerprint is None:
        is_same = PureWindowsPath(facts.path).name == PureWindowsPath(video).name
    else:
        is_same = facts.fingerprint == fingerprint or real(Path(facts.path)) == real(video)
    if is_same:
        return existing
    is_kept = is_corrected(existing) and not replaces.discard_corrections
    if replaces.overwrite and not is_kept:
        return None
    remedy += " and `discard_corrections=True`: it was corrected by hand" if is_kept else ""
    raise StoreError(f"{path}: contains the scenes of another video, not of {video}; {remedy}")


def check_replaceable(
    path: Path, video: Path, fingerprint: str | None, replaces: ScenesOutput, lasting: Collection[object] = ()
) -> None:
    """Check that a new result of ``video`` may replace the file at ``path``, if there is one, without losing
    corrections. ``lasting``: `names_and_pins` that are not lost. Raises StoreError like `read_prediction`, and
    CorrectedError, without ``discard_corrections``, for scenes that were corrected by hand."""
    existing = read_prediction(path, video, fingerprint, replaces)
    if existing is not None and not replaces.discard_corrections and is_corrected(existing, lasting):
        raise CorrectedError(
            f"{path}: was corrected by hand, so name another file with `output`; `discard_corrections=True` replaces it"
        )


def result_version(path: Path) -> str:
    """Return a digest of a ``scenes.json`` as it is now, for `replace_result`; empty if there is no such file."""
    with suppress(OSError):
        if is_file(path):
            with path.open("rb") as file:
                return sha256(file.read(MOST_RESULT_BYTES + 1)).hexdigest()
    return ""


def replace_result(path: Path, scenes: SceneData | bytes, version: str) -> None:
    """Write scenes, or the content of a ``scenes.json``, unless the file changed since the caller took its ``version``
    with `result_version`, before it read the file. Every command that changes results writes them here.

    Comparing and writing are under one lock. Raises ChangedError, and leaves the newer file as it is; BasslError if it
    cannot be written."""
    content = scenes if isinstance(scenes, bytes) else encode_json(scenes.to_dict(path.parent), path)
    if path == STDIO:
        write_atomically(path, content)
        return
    with os_errors(path, "cannot be written"), ExitStack() as lock, atomic_file(path) as partial:
        partial.write_bytes(content)
        lock.enter_context(locked(path.parent, MOST_WAIT))  # until the file is renamed
        check_version(path, version)


def check_version(path: Path, version: str) -> None:
    """Check that a ``scenes.json`` still has the ``version`` that a caller took. Raises ChangedError."""
    if path == STDIO or result_version(path) in (version, ""):  # one that was removed loses nothing
        return
    from pipelines.datasets.scenes_json import read_scene_list  # start-up time: NumPy

    what = "changed"
    with suppress(DatasetError):
        what = "corrected by hand" if is_corrected(read_scene_list(path)) else what
    raise ChangedError(f"{path}: was {what} meanwhile, and is left as it is; run the command again")


def needs_name(scenes: SceneData, scene: Scene, command: str) -> bool:
    """Return whether the program of `describe` is to name a scene: without a name by people or by this program."""
    is_by_another = scene.named_by == "program" and scenes.settings.get("described_by") != command_digest(command)
    return scene.lacks_name or is_by_another


def command_digest(command: str) -> str:
    """Return what a result records of a command, whose words may be private."""
    return sha256(command.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def names_and_pins(scenes: SceneData) -> set[object]:
    """Return what a person added to a result: names of scenes, and pins as (end of the shot in frames, whether a scene
    ends there)."""
    pins = {(shot.end_frame, shot.pinned) for shot in scenes.shots if shot.is_pinned_by_hand}
    return pins | {scene.name for scene in scenes.scenes if scene.name is not None and scene.named_by is None}


def check_corrected(scenes: SceneData, file: str, remedy: str = "") -> None:
    """Check that scenes from ``file`` are true ones: labels, or a prediction that a person corrected. Raises BasslError
    for a prediction as it was made; ``remedy`` ends its line."""
    if "threshold" in scenes.settings and not is_corrected(scenes):
        correction = "correct its scenes on the page of `bassl review`, or name one if all are right"
        raise BasslError(f"{file}: was not corrected; {correction}{remedy}")


def is_corrected(scenes: SceneData, lasting: Collection[object] = ()) -> bool:
    """Return whether there are names or pins other than ``lasting``, or scenes that do not follow from scores and pins,
    for example because the file was edited."""
    from pipelines.models.scenes.scene_ends import choose_scenes  # start-up time: NumPy

    if scenes.settings.get("edited_by_hand") is True:
        return True
    if not names_and_pins(scenes) <= set(lasting):
        return True
    for segments in (scenes.segments, ()):  # in earlier versions credits did not bound scenes
        try:
            predicted = choose_scenes(scenes.shots, **Grouping().resolved(scenes.settings), segments=segments)
        except (BasslError, TypeError, ValueError):
            continue
        if shot_ranges(predicted) == shot_ranges(scenes.scenes):
            return False
    return True
