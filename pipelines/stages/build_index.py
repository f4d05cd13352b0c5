"""Sources of shots, key-frames and labels in, one sequence index out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pipelines.errors import BasslError, DatasetError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pipelines.datasets.annotations import VideoAnnotation
    from pipelines.datasets.matching import MatchReport
    from pipelines.stores.index import Index, IndexedVideo


@dataclass(frozen=True)
class IndexSettings:
    """What goes into an index and how."""

    output: Path = Path("data/index.h5")
    """The index."""
    labels: tuple[Path, ...] = ()
    """Label files for the videos of the sources: MovieNet, BBC, OVSD, scenes.json, CSV."""
    split: tuple[float, ...] | Path | None = None
    """Shares of the videos for train, val and test, or a JSON file with the ids of the videos of each split; None keeps
    the splits that the sources give."""
    seed: int = 0
    """Of the draw of splits."""
    doubtful: Literal["end", "ignore"] = "end"
    """MovieNet's label -1: a scene end, as in the paper's release, or left out of training and scoring."""
    tolerance: float = 1.0
    """How far, in seconds, a labelled scene end may lie from the end of the shot that takes it."""
    annotator: int = 0
    """Whose labels of BBC are read."""
    features: Path = Path("data/features")
    """Folder of the feature stores that are made of features in the sources."""
    pack: Path | None = None
    """Folder in which folders of JPEG key-frames are packed into stores; None reads them in place."""
    overwrite: bool = False
    """Make the index again when it is there."""


@dataclass(frozen=True)
class IndexReport:
    """What was built.

    ``matches`` tells how well labels fell on shots that are not their own, by video; ``notes`` are lines about what is
    missing or was left out.
    """

    index: Index
    matches: Mapping[str, MatchReport]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class SplitStatistics:
    """What one split of an index holds, a row of the paper's table of data sets."""

    split: str
    """Its name; ``none`` for videos without one, ``all`` for the sum."""
    videos: int
    labelled: int
    """Videos with labels."""
    scenes: int
    """Of the labelled videos."""
    shots: int
    hours: float | None
    """None where the times of a video are not known."""


def build_index(sources: Sequence[Path | str], settings: IndexSettings = IndexSettings()) -> IndexReport:
    """Build the index of all shots of all videos.

    A source is a folder of key-frame stores or one store, MovieNet's folder, BBC's, OVSD's, a folder of ``.npz`` with
    features, shots and labels, or ``scenes.json`` files. Which it is, is seen from its files.

    Args:
        sources: where shots (and key-frames, features, labels) are.
        settings: the rest.

    Raises:
        BasslError: one line, for a source that is none, files that are damaged or contradict each other, or an index
            that is there already.
    """
    from pipelines.stores.features import write_features
    from pipelines.stores.index import read_index, write_index

    _check(settings)
    if settings.output.exists() and not settings.overwrite:
        raise BasslError(f"{settings.output}: is there already; --overwrite makes it again")
    videos: list[IndexedVideo] = []
    features: dict[str, dict[str, NDArray[np.float32]]] = {}
    for source in map(Path, sources):
        found, encodings = _read_source(source, settings)
        videos += found
        if encodings:
            name = f"{source.resolve().name}-{next(iter(encodings.values())).shape[1]}d"
            features.setdefault(name, {}).update(encodings)
    if not videos:
        raise BasslError("nothing to index: name folders of key-frame stores, MovieNet, BBC, OVSD or .npz features")
    videos, matches, notes = _label(videos, settings)
    if isinstance(settings.split, Path):
        videos = _split_as_listed(videos, settings.split)
    elif settings.split is not None:
        videos = _split(videos, settings.split, settings.seed)
    recorded = {
        "split": str(settings.split) if isinstance(settings.split, Path) else settings.split,
        "seed": settings.seed,
        "tolerance": settings.tolerance,
        "annotator": settings.annotator,
    }
    stores = {name: settings.features / f"{name}.h5" for name in features}
    for name, encodings in features.items():
        write_features(stores[name], name, encodings)
    write_index(settings.output, videos, recorded, settings.doubtful, stores)
    index = read_index(settings.output)
    return IndexReport(index, matches, (*notes, *missing(index)))


def missing(index: Index) -> list[str]:
    """Lines about what an index lacks: key-frames, labels, splits, times, or files that are not where it says."""
    import numpy as np

    from pipelines.stores.index import NO_LABEL

    spans = [index.span(video) for video in range(len(index.video_ids))]
    lacking = {
        "no key-frames": [v for v, place in enumerate(index.pictures) if place is None],
        "key-frames that are not there any more": [
            v for v, place in enumerate(index.pictures) if place is not None and not place.exists()
        ],
        "no labels": [v for v, span in enumerate(spans) if np.all(index.label[span] == NO_LABEL)],
        "no split": [v for v, split in enumerate(index.splits) if not split],
        "no times in seconds": [v for v, span in enumerate(spans) if np.isnan(index.seconds[span.start, 0])],
    }
    notes = []
    for what, videos in lacking.items():
        if videos:
            names = ", ".join(index.video_ids[v] for v in videos[:3]) + (", ..." if len(videos) > 3 else "")
            notes.append(f"{len(videos)} of {len(index.video_ids)} videos have {what}: {names}")
    notes += [
        f"features {name} are not there any more: {path}" for name, path in index.features.items() if not path.exists()
    ]
    return notes


def statistics(index: Index) -> list[SplitStatistics]:
    """What each split holds, in the order train, val, test, others; then all together where there are several."""
    order = {"train": 0, "val": 1, "test": 2}
    splits: list[str | None] = [*sorted(set(index.splits), key=lambda name: (order.get(name, 3), name))]
    if len(splits) > 1:
        splits.append(None)
    return [_statistics(index, split) for split in splits]


def _statistics(index: Index, split: str | None) -> SplitStatistics:
    import numpy as np

    from pipelines.stores.index import NO_LABEL

    videos = [v for v, name in enumerate(index.splits) if split in (name, None)]
    spans = [index.span(v) for v in videos]
    labelled = [span for span in spans if np.any(index.label[span] != NO_LABEL)]
    ends = sum(int(index.targets(np.arange(span.start, span.stop)).sum()) for span in labelled)
    seconds = sum(float(index.seconds[span.stop - 1, 1]) for span in spans)
    return SplitStatistics(
        split="all" if split is None else split or "none",
        videos=len(videos),
        labelled=len(labelled),
        scenes=ends + len(labelled),  # the last scene of a video ends with the film, without a label
        shots=sum(int(span.stop - span.start) for span in spans),
        hours=None if np.isnan(seconds) else seconds / 3600,
    )


def _check(settings: IndexSettings) -> None:
    from pipelines.files import check_writable

    if isinstance(settings.split, tuple):
        shares = settings.split
        if not 2 <= len(shares) <= 3 or any(not 0 <= share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-6:
            raise BasslError("a split is two or three shares of 0 to 1 that add up to 1, such as 0.6,0.2,0.2")
    if not settings.tolerance >= 0:
        raise BasslError(f"the tolerance must be 0 seconds or more, not {settings.tolerance:g}")
    if settings.doubtful not in ("end", "ignore"):
        raise BasslError(f"doubtful labels can be read as 'end' or 'ignore', not {settings.doubtful!r}")
    check_writable(settings.output)


def _read_source(source: Path, settings: IndexSettings) -> tuple[list[IndexedVideo], dict[str, NDArray[np.float32]]]:
    """The videos of a source, and the features of those that come with some."""
    from pipelines.datasets.movienet import is_movienet

    if not source.exists():
        raise DatasetError(f"{source}: no such file or folder")
    stores = [source] if source.suffix == ".h5" else sorted(source.glob("[!.]*.h5")) if source.is_dir() else []
    if stores:
        return [_from_store(path) for path in stores], {}
    # MovieNet is asked about first: to look for anything below it is to walk five million files.
    if source.is_dir() and not is_movienet(source) and next(source.rglob("*.npz"), None) is not None:
        return _from_features(source)
    return [_from_annotation(record, settings) for record in read_annotations(source, settings.annotator)], {}


def read_annotations(source: Path, annotator: int = 0) -> list[VideoAnnotation]:
    """The records of label files in any of the formats that are known.

    Raises:
        DatasetError: one line, when it is none of them or damaged.
    """
    from pipelines.datasets.bbc import is_bbc, read_bbc
    from pipelines.datasets.movienet import is_movienet, read_movienet
    from pipelines.datasets.ovsd import is_ovsd, read_ovsd
    from pipelines.datasets.scene_files import is_scene_files, read_scene_files

    if not source.exists():
        raise DatasetError(f"{source}: no such file or folder")
    if is_movienet(source):
        return read_movienet(source)
    if is_bbc(source):
        return read_bbc(source, annotator)
    if is_ovsd(source):
        return read_ovsd(source)
    if is_scene_files(source):
        return read_scene_files(source)
    raise DatasetError(f"{source}: holds no key-frame stores, features or label files of a kind that is known")


def _from_store(path: Path) -> IndexedVideo:
    import numpy as np

    from pipelines.stores.index import NO_LABEL, IndexedVideo
    from pipelines.stores.keyframes import read_keyframes

    store = read_keyframes(path)
    shots, images = store.keyframes.shape
    # (N, N_k + 1): where the shot's JPEGs begin, and where the last one ends.
    places = np.arange(shots)[:, None] * images + np.arange(images + 1)
    return IndexedVideo(
        video_id=store.video_id,
        source=str(path),
        frames=store.frames,
        seconds=store.seconds,
        label=np.full(shots, NO_LABEL, np.int8),
        frame_rate=store.video.frame_rate,
        pictures=path,
        keyframes=images,
        jpeg=store.jpeg_offsets[places],
        jpeg_crc32=store.jpeg_crc32.reshape(shots, images),
    )


def _from_features(source: Path) -> tuple[list[IndexedVideo], dict[str, NDArray[np.float32]]]:
    import numpy as np

    from pipelines.datasets.shot_features import read_shot_feature_folder
    from pipelines.stores.index import IndexedVideo

    records = read_shot_feature_folder(source)
    videos = [
        IndexedVideo(
            video_id=record.video_id,
            source=str(source),
            frames=record.shots,
            seconds=np.full(record.shots.shape, np.nan),
            # The film's end is no scene end that is to be found.
            label=np.append(record.scene_end[:-1], 0).astype(np.int8),
        )
        for record in records
    ]
    return videos, {record.video_id: record.features for record in records}


def _from_annotation(record: VideoAnnotation, settings: IndexSettings) -> IndexedVideo:
    import numpy as np

    from pipelines.datasets.movienet import KeyframeFolder
    from pipelines.stores.index import NO_LABEL, IndexedVideo

    shots = record.number_of_shots
    if shots is None:
        raise DatasetError(
            f"{record.source}: labels the time line of {record.video_id}, not its shots; extract its key-frames and "
            f"give this file with --labels"
        )
    pictures = record.keyframe_files
    if pictures is not None and not isinstance(pictures, KeyframeFolder):
        raise DatasetError(f"{record.source}: its key-frames do not lie in one folder a film")
    # MovieNet's films without a shot list have key-frames only: each shot then counts as one frame.
    frames = record.shots if record.shots is not None else np.arange(shots)[:, None] + np.arange(2)
    if record.shots_seconds is not None:
        seconds = record.shots_seconds
    elif record.shots is not None and record.frame_rate is not None:
        seconds = record.shots / record.frame_rate
    else:
        seconds = np.full((shots, 2), np.nan)
    video = IndexedVideo(
        video_id=record.video_id,
        source=str(record.source),
        frames=frames,
        seconds=seconds,
        label=np.full(shots, NO_LABEL, np.int8) if record.scene_end is None else record.scene_end,
        split=record.split or "",
        frame_rate=record.frame_rate or float("nan"),
        pictures=None if pictures is None else pictures.folder,
        keyframes=0 if pictures is None else pictures.images,
    )
    return video if settings.pack is None or pictures is None else _packed(video, pictures, settings)


def _packed(video: IndexedVideo, pictures: Sequence[tuple[Path, ...]], settings: IndexSettings) -> IndexedVideo:
    """The video with its JPEG files copied into a key-frame store, as they are."""
    from dataclasses import replace

    import numpy as np

    from pipelines.datasets.movienet import read_jpeg
    from pipelines.scenes import VideoFacts
    from pipelines.stores.keyframes import StoredShot, write_keyframes

    assert settings.pack is not None
    path = settings.pack / f"{video.video_id}.h5"
    if settings.overwrite or not path.exists():
        # A packed film's key-frames are those of MovieNet, at 1/4, 1/2 and 3/4; a store needs times, too.
        seconds = video.seconds if np.isfinite(video.seconds).all() else video.frames.astype(np.float64)
        shots = (
            StoredShot(
                (int(start), int(end)),
                (float(begin), float(finish)),
                tuple(int(start + (end - start) * k // (len(files) + 1)) for k in range(1, len(files) + 1)),
                tuple(read_jpeg(file) for file in files),
            )
            for (start, end), (begin, finish), files in zip(video.frames, seconds, pictures, strict=True)
        )
        width, height = _picture_size(pictures[0][0])
        facts = VideoFacts(
            video.video_id, width, height, float(seconds[-1, 1]), int(video.frames[-1, 1]), video.frame_rate
        )
        write_keyframes(
            path,
            shots,
            lambda: (facts, {"name": video.video_id, "bytes": 0, "sha256": ""}),
            {"packed": True, "keyframes": video.keyframes},
        )
    packed = _from_store(path)
    if packed.keyframes != video.keyframes or not np.array_equal(packed.frames, video.frames):
        raise DatasetError(f"{path}: has other shots or key-frames than {video.source}; --overwrite makes it again")
    return replace(video, pictures=path, jpeg=packed.jpeg, jpeg_crc32=packed.jpeg_crc32)


def _picture_size(file: Path) -> tuple[int, int]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            return image.size
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise DatasetError(f"{file}: is not a JPEG that can be read") from error


def _label(
    videos: list[IndexedVideo], settings: IndexSettings
) -> tuple[list[IndexedVideo], dict[str, MatchReport], list[str]]:
    """Put the labels of label files on the shots of the videos with their ids."""
    from dataclasses import replace

    import numpy as np

    from pipelines.datasets.matching import match_annotation

    records: dict[str, VideoAnnotation] = {}
    for path in settings.labels:
        for record in read_annotations(path, settings.annotator):
            if record.video_id in records:
                first = records[record.video_id].source
                raise DatasetError(f"{record.source}: labels {record.video_id}, which {first} labels too")
            records[record.video_id] = record
    matches, labelled = {}, []
    for video in videos:
        if video.video_id not in records:
            labelled.append(video)
            continue
        record = records.pop(video.video_id)
        if not np.isfinite(video.seconds).all():
            raise DatasetError(f"{video.source}: has no times in seconds, so {record.source} cannot be matched to it")
        label, matches[video.video_id] = match_annotation(record, video.frames, video.seconds, settings.tolerance)
        labelled.append(replace(video, label=label, split=record.split or video.split))
    notes = []
    if records:
        names = ", ".join(sorted(records)[:3]) + (", ..." if len(records) > 3 else "")
        notes.append(f"{len(records)} labelled video(s) are not among the sources: {names}")
    return labelled, matches, notes


def _split_as_listed(videos: list[IndexedVideo], path: Path) -> list[IndexedVideo]:
    """Put videos into the splits that a file names them in; those that it does not name are in none."""
    from dataclasses import replace

    from pipelines.datasets.annotations import read_json

    content = read_json(path)
    if not isinstance(content, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in content.values()
    ):
        raise DatasetError(f'{path}: is no list of video ids for each split, such as {{"train": [...], "val": [...]}}')
    split_of: dict[str, str] = {}
    for split, names in content.items():
        for name in names:
            if split_of.setdefault(name, split) != split:
                raise DatasetError(f"{path}: {name} is in two splits, {split_of[name]} and {split}")
    missing = sorted(split_of.keys() - {video.video_id for video in videos})
    if missing:
        raise DatasetError(f"{path}: names {missing[0]}, which is not among the videos")
    return [replace(video, split=split_of.get(video.video_id, "")) for video in videos]


def _split(videos: list[IndexedVideo], shares: tuple[float, ...], seed: int) -> list[IndexedVideo]:
    """Draw splits by video: never do shots of one video fall into two."""
    from dataclasses import replace

    import numpy as np

    names = ("train", "val", "test") if len(shares) == 3 else ("train", "test")
    videos = sorted(videos, key=lambda video: video.video_id)
    order = np.random.default_rng(seed).permutation(len(videos))
    bounds = np.round(np.cumsum(shares) * len(videos)).astype(int)
    part = np.searchsorted(bounds, np.arange(len(videos)), side="right")
    drawn = dict(zip(order.tolist(), part.tolist(), strict=True))
    return [replace(video, split=names[min(drawn[i], len(names) - 1)]) for i, video in enumerate(videos)]
