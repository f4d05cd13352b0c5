"""Scenes of a video for programs: the data, with methods that call the stages."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, overload

from pipelines.errors import BasslWarning, explain_missing_extra
from pipelines.options import with_options
from pipelines.scenes import Scene, SceneData
from pipelines.settings import Grouping

if TYPE_CHECKING:  # start-up time: NumPy, PyAV; pandas is an optional dependency
    import pandas as pd

    from pipelines.stages.export import ExportResult
    from pipelines.stages.option_types import (
        GroupingOptions,
        SceneExportOptions,
        SceneImageOptions,
        SceneReportOptions,
        SceneSplitOptions,
    )
    from pipelines.stages.regroup import Look
    from pipelines.stages.save_images import SavedImage
    from pipelines.stages.split import Clip


@dataclass(frozen=True, repr=False)
class SceneList(SceneData):
    """Scenes of a video, with its shots, settings and facts.

    A sequence of scenes: ``len(result)``, ``result[0]``, ``for scene in result``. A notebook shows them as a table. The
    methods do what the commands do, with the same options, by name, and raise the same errors.

    Example::

        result = bassl.predict("movie.mp4").regroup(threshold=0.4)
        result.export("movie.edl")
        result.split("clips", exact=True)
    """

    thumbnails: tuple[bytes, ...] = field(default=(), compare=False)
    """A small JPEG of each shot, if `predict` made this result; not part of the file."""

    def __len__(self) -> int:
        return len(self.scenes)

    def __iter__(self) -> Iterator[Scene]:
        return iter(self.scenes)

    @overload
    def __getitem__(self, index: int) -> Scene: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Scene, ...]: ...
    def __getitem__(self, index: int | slice) -> Scene | tuple[Scene, ...]:
        return self.scenes[index]

    def _repr_html_(self) -> str:
        from pipelines.outputs.images import scene_table  # start-up time: OpenCV

        return scene_table(self, self.thumbnails)

    def to_dataframe(self, *, shots: bool = False) -> pd.DataFrame:
        """Return a data frame with a row for each scene, or shot: its fields and ``duration`` in seconds; the index is
        its number, from 0. Raises BasslError if pandas is not installed."""
        with explain_missing_extra("to_dataframe"):
            import pandas as pd  # optional dependency

        rows = [vars(item) | {"duration": item.end - item.start} for item in (self.shots if shots else self.scenes)]
        for row in rows if shots else ():
            row["transition"] = row["transition"] and row["transition"].kind
        return pd.DataFrame(rows).set_index("index")

    def regroup(self, **options: Unpack[GroupingOptions]) -> SceneList:
        """Return other scenes from the same scores, with other options of `Grouping`, such as ``threshold``; options
        that are not named stay as they are, except for ``scenes``. Nothing is written."""
        from pipelines.stages.regroup import regrouped  # start-up time: NumPy

        return regrouped(self, with_options(Grouping, **options))

    def next_look(self, shots: int = 8) -> Look | None:
        """Return at most so many shots for a person to look at next (docs/review.md), or None if all are pinned."""
        from pipelines.stages.regroup import next_look  # start-up time: NumPy

        return next_look(self, shots)

    def pin(
        self, ends: Iterable[int] = (), joined: Iterable[int] = (), *, by: Literal["program"] | None = None
    ) -> SceneList:
        """Return the scenes after a person's answers, by index of shots: a scene ends with each of ``ends``, none with
        ``joined``. Answers ``by`` a program are marked so, leave a person's as they are, and are no corrections by
        hand. No option changes answers any more, and the threshold moves to the one with the best expected F1;
        scenes of a fixed number, or corrected by hand, change only at the answers. Nothing is written.

        Example::

            while (look := result.next_look()) and look.expected_f1 < 0.9:
                ends = ask(look.start_shot, look.end_shot, look.ends)
                result = result.pin(ends, set(range(look.start_shot, look.end_shot - 1)) - set(ends))
        """
        from pipelines.stages.regroup import pinned  # start-up time: NumPy

        return pinned(self, ends, joined, by)

    def export(self, output: Path | str | None = None, **options: Unpack[SceneExportOptions]) -> ExportResult:
        """Write the scenes in the format of another tool, see :func:`bassl.export`; by its extension, or ``to``."""
        from pipelines.stages.export import export  # start-up time: NumPy, PyAV

        return export(self, output=output, **options)

    def split(self, output: Path | str | None = None, **options: Unpack[SceneSplitOptions]) -> tuple[Clip, ...]:
        """Cut the video into its scenes, in a folder, see :func:`bassl.split`."""
        from pipelines.stages.split import split  # start-up time: PyAV

        return split(self, output=output, **options)

    def save_images(
        self, output: Path | str | None = None, **options: Unpack[SceneImageOptions]
    ) -> tuple[SavedImage, ...]:
        """Save images of the scenes, in a folder, see :func:`bassl.save_images`."""
        from pipelines.stages.save_images import save_images  # start-up time: NumPy, PyAV, Pillow

        return save_images(self, output=output, **options)

    def report(self, output: Path | str | None = None, **options: Unpack[SceneReportOptions]) -> Path:
        """Write the page of :func:`bassl.report`, and return its path. What it lacks is a BasslWarning."""
        from pipelines.stages.report import report  # start-up time: NumPy, Jinja

        result = report(self, output=output, **options)
        for warning in result.warnings:
            warnings.warn(BasslWarning(warning), stacklevel=2)
        return result.output


def load_scenes(path: Path | str) -> SceneList:
    """Read a ``scenes.json``, named by its path, or by its video, whose result is beside it or in the working folder.
    The video is found at its relative and absolute path. Raises BasslError, one line, for another file."""
    from pipelines.results.opening import open_scenes  # start-up time: NumPy

    return SceneList(**vars(open_scenes(path).scenes))
