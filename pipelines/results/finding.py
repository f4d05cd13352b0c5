"""Results of videos, ``NAME.scenes.json``: their names, the files beside them, and how a command's arguments select
them; names of scenes, and of the files of one video, from a template in PySceneDetect's syntax."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePath, PureWindowsPath
from shlex import quote
from string import Template

from pipelines.errors import BasslError, VideoError
from pipelines.files import JSON_EXPORTS, STDIO, is_file, make_folder, safe_name
from pipelines.scenes import Scene, SceneData, Shot
from pipelines.video.inputs import find_videos, safe_id, video_ids

FOLDER = Path("scenes")  # default folder for the results of several videos
_LONGEST_STEM = 200  # bytes; file systems allow 255, with extensions


def own_name(video: PurePath, video_id: str) -> str:
    """Return what files of a video are called: its stem, or its id if that differs, or the stem is odd or long."""
    stem = video.stem
    is_own = video_id == safe_id(stem) and len(os.fsencode(stem)) <= _LONGEST_STEM and not stem.startswith((".", "-"))
    return stem if is_own else video_id


def result_name(video: PurePath, video_id: str) -> str:
    """Return the name of the ``scenes.json`` of a video."""
    return f"{own_name(video, video_id)}.scenes.json"


def result_path(video: Path) -> Path:
    """Return the path of the ``scenes.json`` of one video, in the working folder."""
    return Path(result_name(video, safe_id(video.stem)))


def beside(result: Path, extension: str) -> Path:
    """Return the path of a file that belongs to a ``scenes.json``, such as a page or an export, with the same stem. It
    is in the working folder if the ``scenes.json`` is read from stdin."""
    return result.with_name(("scenes" if result == STDIO else result.stem) + extension)


def is_scenes_json(path: Path) -> bool:
    """Return whether a ``scenes.json`` is at this path by its name: ``.json``, but no export's extension, or stdio."""
    name = path.name.lower()
    return path == STDIO or (name.endswith(".json") and not name.endswith(JSON_EXPORTS))


def is_video(source: Path) -> bool:
    """Return whether a source is a video by its name, not a ``scenes.json`` (a ``.json`` file or stdin)."""
    return source != STDIO and source.suffix.lower() != ".json"


def find_result(source: Path, name: str | None = None) -> Path:
    """Find the ``scenes.json`` of a video, by its name or another ``name``: in the working folder, beside the video, or
    in a folder ``scenes`` in either; else return where `bassl predict` writes it. Return other paths as they are."""
    if not is_video(source):
        return source
    usual = name or result_path(source).name
    places = (Path(), source.parent, FOLDER, source.parent / FOLDER)
    return next((place / usual for place in places if is_file(place / usual)), Path(usual))


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
    """Return the videos and ``scenes.json`` files that arguments of a command name, each result once. A folder stands
    for its results, else those in its folder ``scenes``, else its videos; no argument for the only result in the
    working folder. Exports in JSON, which ``*.json`` matches, are left out. Raises BasslError without results."""
    if not sources:
        return [_only_result()]
    by_result: dict[Path, Path] = {}
    for source in sources:
        is_folder = os.path.isdir(source)  # noqa: PTH112  # a name may be too long
        for path in _sources_in(source) if is_folder else [source]:
            if is_video(path) or is_scenes_json(path):
                by_result.setdefault(find_result(path), path)
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
    """Return the results in a folder, or its videos; of videos with one name the ``scenes.json``."""
    if results := _results_in(folder):
        return results
    try:
        videos = find_videos(folder)
    except VideoError as error:
        raise BasslError(f"{error} and no NAME.scenes.json") from error
    names = map(result_name, videos, video_ids(videos))
    sources = [
        video if name == result_path(video).name else find_result(video, name)
        for video, name in zip(videos, names, strict=True)
    ]
    if not any(is_file(find_result(source)) for source in sources):
        command = f"bassl predict {quote(str(folder))}"
        raise BasslError(f"{folder}: its videos have no NAME.scenes.json; make them with: {command}")
    return sources


def check_one_video(sources: Sequence[Path], video: Path | None) -> None:
    """Raise BasslError if one video is named for several results."""
    if len(sources) > 1 and video is not None:
        raise BasslError(f"{video}: is one video, but there are {len(sources)} results; leave `video` out")


def make_output_folder(sources: Sequence[Path], output: Path | None) -> None:
    """Make the output folder for several results, if one is named. Raises BasslError for results with one name."""
    if len(sources) < 2 or output is None:
        return
    by_name: dict[str, Path] = {}
    for result in map(find_result, sources):
        if (other := by_name.setdefault(beside(result, "").name.casefold(), result)) != result:
            raise BasslError(f"{result} and {other}: have the same name; for separate folders leave `output` out")
    make_folder(output)


_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_UNENCODABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")


def name_of(item: Scene | Shot) -> str:
    """Return the name of a scene on one line; without a name, and for a shot, its kind and number."""
    name = one_line(item.name or "") if isinstance(item, Scene) else ""
    return name or f"{type(item).__name__} {item.index + 1}"


def video_name(scenes: SceneData) -> str:
    """Return the file name of the video, without its folder, on one line."""
    return one_line(PureWindowsPath(scenes.video.path).name)


def one_line(text: str) -> str:
    """Make text safe on a line and in XML 1.0: line ends and control characters become spaces, surrogates U+FFFD."""
    return _UNENCODABLE.sub("\ufffd", _BREAKS.sub(" ", text)).strip()


def check_template(template: str, names: Collection[str]) -> None:
    """Raise ValueError, one line, if the template contains a variable that is not one of ``names``."""
    parsed = Template(template)
    if not parsed.is_valid() or not set(parsed.get_identifiers()) <= set(names):
        supported = ", ".join(f"${name}" for name in names)
        raise ValueError(f"`filename` {template!r} has an unknown variable; choose from {supported} ($$ is a $)")


def file_names(template: str, rows: Iterable[Mapping[str, object]], suffix: str, variable: str) -> list[str]:
    """Return a name for each row of values, safe for every system. Raises BasslError if two lack the ``variable``."""
    names = [safe_name(Template(template).substitute(row)) + suffix for row in rows]
    if duplicates := [name for name, times in Counter(map(str.casefold, names)).items() if times > 1]:
        raise BasslError(f"{duplicates[0]}: several files would have this name; add {variable} to `filename`")
    return names


def image_folder(name: str) -> Path:
    """Return the folder of the images that `save-images` saves of a video of this name, unless another is named."""
    return Path(f"{name}-images")


def padded_number(index: int, count: int) -> str:
    """Return the number ``index + 1`` with as many digits as ``count`` has, but at least three."""
    return f"{index + 1:0{max(3, len(str(count)))}d}"
