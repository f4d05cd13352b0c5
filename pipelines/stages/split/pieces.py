"""Cutting a film into files that appear together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import Template

from pipelines.errors import BasslError
from pipelines.files import check_inputs_kept, check_writable, files_together
from pipelines.outputs.exports.segments import segments_of
from pipelines.progress import ReportProgress
from pipelines.scenes import SceneList
from pipelines.stages.split.result import Piece
from pipelines.stages.split.settings import SplitSettings
from pipelines.video.cutting import (
    H264,
    copy_scenes,
    copy_with_chapters,
    encode_scenes,
    ending_for_chapters,
    ending_for_copies,
    ending_for_encoding,
)
from pipelines.video.films import video_ids


def write_pieces(film: Path, scenes: SceneList, settings: SplitSettings, progress: ReportProgress) -> tuple[Piece, ...]:
    """One file a scene, see :func:`pipelines.stages.split.split`."""
    name = video_ids([film])[0]
    ending = ending_for_encoding(film) if settings.exact else ending_for_copies(film)
    digits = max(3, len(str(len(scenes.scenes))))
    names = [
        re.sub(
            r'[/\\:*?"<>|]',
            "_",
            Template(settings.filename).substitute(
                VIDEO_NAME=name,
                SCENE_NUMBER=f"{scene.index + 1:0{digits}d}",
                SCENE_NAME=segment.name,
                START_TIME=scene.start_timecode.replace(":", "-"),
                END_TIME=scene.end_timecode.replace(":", "-"),
            ),
        )
        + ending
        for scene, segment in zip(scenes.scenes, segments_of(scenes), strict=True)
    ]
    if twice := [each for each, times in Counter(map(str.casefold, names)).items() if times > 1]:
        raise BasslError(f"{twice[0]}: is the name of several scenes; put $SCENE_NUMBER into --filename")
    with _written_together(film, names, settings) as (targets, partials):
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
    names = [f"{video_ids([film])[0]}-chapters{ending_for_chapters(film)}"]
    with _written_together(film, names, settings) as (targets, partials):
        titles = [segment.name for segment in segments_of(scenes)]
        copy_with_chapters(film, scenes, titles, partials[0], progress)
    return targets[0]


@contextmanager
def _written_together(
    film: Path, names: Sequence[str], settings: SplitSettings
) -> Iterator[tuple[list[Path], list[Path]]]:
    """The files to write, and temporary files to write instead; all are renamed when the block ends."""
    folder = Path(f"{video_ids([film])[0]}-scenes") if settings.folder is None else settings.folder
    targets = [folder / name for name in names]
    check_inputs_kept(targets, (film,))
    for target in targets:
        check_writable(target)
        if target.exists() and not settings.overwrite:
            raise BasslError(f"{target}: is there already; name another folder with -o, or give --overwrite")
    with files_together(folder, "bassl-split") as temporary:
        yield targets, [temporary / name for name in names]
