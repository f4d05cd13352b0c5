"""The scenes of a film in the format of another tool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pipelines.errors import BasslError
from pipelines.options import accept_text
from pipelines.outputs.exports import FORMATS, export as write_export, format_of


@dataclass(frozen=True)
class ExportSettings:
    """Which format, and where it goes."""

    to: str | None = None
    """Name of the format. Unless given: by the ending of --output."""
    output: Path | None = None
    """File to write. Unless given: beside the ``scenes.json``, with the ending of the format."""
    shots: bool = False
    """List the shots instead of the scenes."""

    def __post_init__(self) -> None:
        accept_text(self)
        if self.to is not None and self.to not in FORMATS:
            raise ValueError(f"'{self.to}' is not a format; there are {', '.join(FORMATS)}")
        if self.to is None and self.output is None:
            raise ValueError(f"give --to FORMAT ({', '.join(FORMATS)}) or -o FILE")


@dataclass(frozen=True)
class ExportResult:
    """The file that was written, and how many scenes, or shots, it lists."""

    path: Path
    listed: int


def export(file: Path | str, settings: ExportSettings) -> ExportResult:
    """Write the scenes of a ``scenes.json`` in another format.

    Raises:
        BasslError: one line, for a ``scenes.json`` that cannot be read, an ending that no format or several have, or a
            path that cannot be written, is the film or is the ``scenes.json``.
    """
    from pipelines.datasets.scene_list import film_beside, read_scene_list  # start-up time: numpy

    file, output = Path(file), settings.output
    if settings.to is not None:
        name = settings.to
    else:
        assert output is not None  # checked by the settings
        name = format_of(output)
    if output is None:
        output = file.with_name(file.name.removesuffix(".json") + FORMATS[name].ending)
    if output.resolve() == file.resolve():
        raise BasslError(f"{output}: is what is to be exported; name another file to write")
    scenes = read_scene_list(file)
    if (film := film_beside(file, scenes)) is not None:
        scenes = replace(scenes, video=replace(scenes.video, path=str(film)))
    write_export(scenes, output, name, settings.shots)
    return ExportResult(output, len(scenes.shots if settings.shots else scenes.scenes))
