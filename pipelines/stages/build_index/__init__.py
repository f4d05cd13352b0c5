"""Building the index of all shots of all videos from sources of shots, keyframes and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from annotated_doc import Doc

from pipelines.files import as_paths
from pipelines.options import Settings, nested, resolve_settings
from pipelines.settings import Matching, RunSettings

if TYPE_CHECKING:  # start-up time: numpy and h5py
    from pipelines.datasets.matching import MatchReport
    from pipelines.stages.option_types import IndexOptions
    from pipelines.stores.index import Index


@dataclass(frozen=True)
class IndexSettings(Settings):
    """What goes into an index and how."""

    run: Annotated[
        RunSettings,
        Doc("The index; seed of the draw of splits. Overwriting replaces the feature stores of its .npz files too."),
    ] = nested(RunSettings(Path("data/index.h5")), without=("resume", "log_steps", "logger"))
    labels: Annotated[
        tuple[Path, ...],
        Doc("Label files for the videos of the sources: MovieNet, BBC, OVSD, scenes.json, CSV or chapters."),
    ] = ()
    accept_predictions: Annotated[bool, Doc("Take scenes that a model found, and nobody corrected, for true ones.")] = (
        False
    )
    split: Annotated[
        str | tuple[float, ...] | Path | None,
        Doc("""Draw splits by video: 0.6,0.2,0.2 are the shares of train, val and test; or a JSON file with the
        video ids of each split. Default: the splits of the sources."""),
    ] = None
    matching: Annotated[Matching, Doc("How labels are read and matched with the shots.")] = nested(
        Matching(), without=("truth", "within")
    )
    feature_folder: Annotated[
        Path, Doc("Folder for the features of .npz sources: one feature store per source folder.")
    ] = Path("data/features")
    only_complete: Annotated[
        bool, Doc("Leave out videos without keyframes or features, or with damaged or contradictory files.")
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "split", _split(self.split))


def _split(split: str | Sequence[float] | Path | None) -> tuple[float, ...] | Path | None:
    if isinstance(split, str):
        if split.lower().endswith(".json"):
            return Path(split)
        try:
            split = tuple(float(share) for share in split.split(","))
        except ValueError as error:
            raise ValueError(f"a split is shares such as 0.6,0.2,0.2 or a .json file, not {split!r}") from error
    if split is None or isinstance(split, Path):
        return split
    if not 2 <= len(split) <= 3 or any(not 0 <= share <= 1 for share in split) or abs(sum(split) - 1) > 1e-6:
        raise ValueError("a split is two or three shares of 0 to 1 that add up to 1, such as 0.6,0.2,0.2")
    return tuple(split)


@dataclass(frozen=True)
class SplitStatistics:
    """Counts of one split of an index: a row of the paper's table of data sets."""

    split: str  # its name; ``none`` for videos without one, ``all`` for the sum
    videos: int
    labeled: int  # videos with labels
    scenes: int  # of the labeled videos
    shots: int
    hours: float | None  # None if the times of a video are unknown


@dataclass(frozen=True)
class IndexReport:
    """Index with its statistics."""

    index: Index
    splits: tuple[SplitStatistics, ...]
    matches: Mapping[str, MatchReport]  # by video: how labels of other shots were matched to the shots of the index
    notes: tuple[str, ...]  # a line for each thing that is missing or was left out


def build_index(
    sources: Path | str | Sequence[Path | str],
    settings: IndexSettings = IndexSettings(),
    **options: Unpack[IndexOptions],
) -> IndexReport:
    """Build the index of all shots of all videos.

    A source is a folder of keyframe stores or one store, MovieNet's folder, BBC's, OVSD's, a folder of ``.npz`` with
    features, shots and labels, or a ``scenes.json``; its kind is detected from the files. Raises BasslError, one line,
    for a source of another kind, damaged or contradictory files, or an existing index."""
    settings = resolve_settings(IndexSettings, settings, options)
    from pipelines.stages.build_index import building  # start-up time: numpy and h5py

    return building.build(as_paths(sources), settings)


def describe_index(path: Path | str) -> IndexReport:
    """Return the statistics of an index, and notes on what is missing. Raises StoreError if it is damaged or not an
    index."""
    from pipelines.stages.build_index import building  # start-up time: numpy and h5py

    return building.describe(Path(path))
