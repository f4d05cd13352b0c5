"""The scenes of a video in the format of another tool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.files import STDIO, check_inputs_kept
from pipelines.options import accept_text, nested
from pipelines.outputs.exports import FORMATS, export as write_export, format_of
from pipelines.scenes import NO_VIDEO
from pipelines.settings import Listed, OutputSettings
from pipelines.video.inputs import video_at


@dataclass(frozen=True)
class ExportSettings:
    """Which format, and where the file is written."""

    to: str | None = None
    """Name of the format. Default: by the ending of --output."""
    run: OutputSettings = nested(
        OutputSettings(), without=("overwrite",), defaults={"output": "beside the input, with the ending of the format"}
    )
    listed: Listed = nested(Listed())

    def __post_init__(self) -> None:
        accept_text(self)
        if self.to is not None and self.to not in FORMATS:
            raise ValueError(f"'{self.to}' is not a format; there are {', '.join(FORMATS)}")
        if self.to is None and self.run.output is None:
            raise ValueError(f"give --to FORMAT ({', '.join(FORMATS)}) or -o FILE")


@dataclass(frozen=True)
class ExportResult:
    """The file that was written, how many scenes, or shots, it lists, and lines on what may be wrong with it."""

    path: Path
    listed: int
    warnings: tuple[str, ...] = ()


def beside(file: Path, name: str) -> Path:
    """The path of a format beside a ``scenes.json``; in the current folder for one from stdin."""
    return file.with_name(("scenes" if file == STDIO else file.name.removesuffix(".json")) + FORMATS[name].extension)


def without_exports(files: Sequence[Path]) -> list[Path]:
    """The files, each once, without exports in JSON beside another of them, as ``out/*.json`` finds."""
    exports = {beside(file, name) for file in files for name in FORMATS}
    return [file for file in dict.fromkeys(files) if file not in exports or file.suffix != ".json"]


def export(file: Path | str, settings: ExportSettings) -> ExportResult:
    """Write the scenes of a ``scenes.json`` in another format. Raises BasslError for a ``scenes.json`` that cannot be
    read, a named video that is another one, an extension of no format or of several, or a path that cannot be written,
    is the video or is the ``scenes.json``."""
    from pipelines.datasets.scene_files import read_scene_list, with_video  # start-up time: numpy

    file, output = Path(file), settings.run.output
    if settings.to is not None:
        name = settings.to
    else:
        assert output is not None  # checked by the settings
        name = format_of(output)
    if output is None:
        output = beside(file, name)
    check_inputs_kept((output,), (file, settings.listed.video))
    listed = read_scene_list(file)
    scenes = with_video(listed, settings.listed.video)
    if settings.listed.video is not None:
        from pipelines.video.decoding import check_same_video  # start-up time: PyAV

        check_same_video(settings.listed.video, listed)
    write_export(scenes, output, name, settings.listed.shots)
    missing = FORMATS[name].media and video_at(Path(scenes.video.path), scenes.video) is None
    warnings = FORMATS[name].warnings(scenes, settings.listed.shots)
    if missing:
        warnings += (f"{scenes.video.path}: {NO_VIDEO}; {output} refers to it all the same",)
    return ExportResult(output, len(scenes.shots if settings.listed.shots else scenes.scenes), warnings)
