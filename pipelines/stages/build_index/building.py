"""Building an index: reading its sources, putting labels on shots, drawing splits, writing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.annotations import VideoAnnotation
from pipelines.datasets.matching import MatchReport, match_annotation
from pipelines.datasets.movienet import SPLITS
from pipelines.datasets.parsing import fault, read_json
from pipelines.datasets.sources import read_annotations
from pipelines.errors import BasslError, DatasetError
from pipelines.files import check_inputs_kept, check_writable
from pipelines.stages.build_index.settings import IndexReport, IndexSettings, SplitStatistics
from pipelines.stages.build_index.sources import INCOMPLETE, read_source
from pipelines.stores.features import feature_file, open_features, write_features
from pipelines.stores.index import NO_LABEL, Index, IndexedVideo, joined, read_index, save_index
from pipelines.stores.lookup import store_path
from pipelines.video.inputs import safe_id


def build(sources: Sequence[Path], settings: IndexSettings) -> IndexReport:
    """See :func:`pipelines.stages.build_index.build_index`."""
    check_writable(settings.run.output)
    if settings.run.output.exists() and not settings.run.overwrite:
        raise BasslError(f"{settings.run.output}: already exists; --overwrite makes it again")
    read = [file for source in sources for file in (source, *source.glob("*.h5")) if file.is_file()]
    listed = settings.split if isinstance(settings.split, Path) else None
    check_inputs_kept((settings.run.output,), (*read, *settings.labels, listed))
    videos: list[IndexedVideo] = []
    features: dict[str, dict[str, NDArray[np.float32]]] = {}
    colour: dict[str, NDArray[np.float32]] = {}
    left_out: dict[str, str] = {}
    for source in sources:
        found = read_source(source, settings)
        videos += found.videos
        left_out |= found.left_out
        colour |= found.colour
        if found.features:
            name = f"{safe_id(source.resolve().name)}-{next(iter(found.features.values())).shape[1]}d"
            features.setdefault(name, {}).update(found.features)
    if left_out and not videos:
        name, why = next(iter(left_out.items()))
        raise BasslError(f"nothing to index: no video is complete ({name}: {why})")
    if not videos:
        raise BasslError("nothing to index: name folders of keyframe stores, MovieNet, BBC, OVSD or .npz features")
    if settings.matching.frame_rate is not None:
        videos = [_add_times(video, settings.matching.frame_rate) for video in videos]
    videos, matches, notes = _label(videos, settings)
    expected: Iterable[str] = SPLITS if any(video.split for video in videos) else ()
    if isinstance(settings.split, Path):
        videos, expected = _listed_splits(videos, settings.split, left_out)
    elif isinstance(settings.split, tuple):
        videos = _drawn_splits(videos, settings.split, settings.run.seed)
        expected = [name for name, share in zip(_names(settings.split), settings.split, strict=True) if share]
    empty = [name for name in expected if name not in {video.split for video in videos}]
    for origin in sorted({video.made_of for video in videos} - {""}):
        same = [video.video_id for video in videos if video.made_of == origin]
        if len(same) > 1:
            notes.append(f"{' and '.join(same)} are of one video; delete all but one, or it may be in two splits")
    notes += [f"no video is in the split {name}" for name in empty] + _reasons(left_out, len(videos))
    recorded = {
        "split": str(settings.split) if isinstance(settings.split, Path) else settings.split,
        "seed": settings.run.seed,
        "tolerance": settings.matching.tolerance,
        "annotator": settings.matching.annotator,
    }
    stores = {name: store_path(settings.feature_folder, name) for name in features}
    # raises before a file is replaced
    index = joined(settings.run.output, videos, recorded, settings.matching.doubtful, stores)
    for name, encodings in features.items():
        _check_widths(stores[name], encodings, colour)
        if not settings.run.overwrite:
            _check_kept(stores[name], encodings)
        for video_id, values in encodings.items():
            write_features(stores[name], name, video_id, values, colour=colour.get(video_id))
    save_index(index)
    return describe(settings.run.output, matches, notes)


def _check_widths(
    store: Path, features: Mapping[str, NDArray[np.float32]], colour: Mapping[str, NDArray[np.float32]]
) -> None:
    """Check that the features of a store, and their colour, are of one width each. Raises DatasetError."""
    hues = {name: values for name, values in colour.items() if name in features}
    for what, arrays in (("features", features), ("colour", hues)):
        widths = sorted({values.shape[1] for values in arrays.values()})
        if len(widths) > 1:
            raise fault(store, f"{what} of different widths cannot be one store: {' and '.join(map(str, widths))}")


def _check_kept(store: Path, features: Mapping[str, NDArray[np.float32]]) -> None:
    """Check that the files of a store have these features: another index may use them. Raises BasslError."""
    for name, values in features.items():
        path = feature_file(store, name)
        if path.exists() and not np.array_equal(open_features(path).features, values):
            raise fault(path, "has other features; name another --feature-folder, or replace them with --overwrite")


def _add_times(video: IndexedVideo, frame_rate: float) -> IndexedVideo:
    """The video with times of its frames, where it has neither times nor a frame rate."""
    if not np.isnan(video.frame_rate) or np.isfinite(video.seconds).all():
        return video
    return replace(video, seconds=video.frames / frame_rate, frame_rate=frame_rate)


def _reasons(left_out: Mapping[str, str], kept: int) -> list[str]:
    """Lines on the videos that were left out: one for those without keyframes, one for each that is damaged."""
    if not left_out:
        return []
    damaged = [f"{name} is left out: {why}" for name, why in sorted(left_out.items()) if why != INCOMPLETE]
    named = f"{len(left_out)} of {len(left_out) + kept} videos are left out"
    return [f"{named}, {len(left_out) - len(damaged)} of them because they have no keyframes or features", *damaged]


def describe(path: Path, matches: Mapping[str, MatchReport] = {}, notes: Sequence[str] = ()) -> IndexReport:
    """The report on an index, with what is known of how it was built."""
    index = read_index(path)
    return IndexReport(index, tuple(statistics(index)), matches, (*notes, *missing(index)))


def _label(
    videos: list[IndexedVideo], settings: IndexSettings
) -> tuple[list[IndexedVideo], dict[str, MatchReport], list[str]]:
    """The videos with the labels of the label files, how these were matched to shots, and notes."""

    known = {video.video_id for video in videos}
    records: dict[str, VideoAnnotation] = {}
    for path in settings.labels:
        for record in read_annotations(path, settings.matching.annotator, settings.matching.frame_rate):
            record = _named_with_folder(record, known)
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
        label, matches[video.video_id] = match_annotation(
            record, video.frames, video.seconds, settings.matching.tolerance
        )
        labelled.append(replace(video, label=label, split=record.split or video.split))
    notes = [
        f"{name}: {match.outside} of {match.outside + match.scene_ends + match.at_video_end} labelled scene ends are "
        "outside its shots"
        for name, match in matches.items()
        if match.outside
    ]
    if records:
        names = ", ".join(sorted(records)[:3]) + (", ..." if len(records) > 3 else "")
        are = "labelled video is" if len(records) == 1 else "labelled videos are"
        notes.append(f"{len(records)} {are} not among the sources: {names}")
    return labelled, matches, notes


def _named_with_folder(record: VideoAnnotation, known: Set[str]) -> VideoAnnotation:
    """Labels with the id of their video: where videos share a name, stores have those of the folders in front of it."""
    parts = record.source.resolve().parent.parts[1:]
    longer = (safe_id("_".join((*parts[-depth:], record.video_id))) for depth in range(1, len(parts) + 1))
    full = safe_id(record.source.stem)  # of a video that is itself called "..._scenes"
    name = next((name for name in (record.video_id, full, *longer) if name in known), record.video_id)
    return replace(record, video_id=name)


def _listed_splits(
    videos: list[IndexedVideo], path: Path, left_out: Collection[str]
) -> tuple[list[IndexedVideo], list[str]]:
    """The videos with the splits that a JSON file lists them in, none for videos that it does not list; and the names
    of these splits. The file may list videos that were left out."""
    content = read_json(path)
    if not isinstance(content, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in content.values()
    ):
        raise fault(path, 'is not a list of video ids for each split, such as {"train": [...], "val": [...]}')
    split_of: dict[str, str] = {}
    for split, names in content.items():
        for name in names:
            if split_of.setdefault(name, split) != split:
                raise DatasetError(f"{path}: {name} is in two splits, {split_of[name]} and {split}")
    unknown = sorted(split_of.keys() - {video.video_id for video in videos} - set(left_out))
    if unknown:
        raise DatasetError(f"{path}: names {unknown[0]}, which is not among the videos")
    return [replace(video, split=split_of.get(video.video_id, "")) for video in videos], list(content)


def _drawn_splits(videos: list[IndexedVideo], shares: tuple[float, ...], seed: int) -> list[IndexedVideo]:
    """The videos with splits drawn by video, so that the shots of one video are never in two splits."""
    names = _names(shares)
    videos = sorted(videos, key=lambda video: video.video_id)
    order = np.random.default_rng(seed).permutation(len(videos))
    bounds = np.round(np.cumsum(shares) * len(videos)).astype(int)
    part = np.searchsorted(bounds, np.arange(len(videos)), side="right")
    drawn = dict(zip(order.tolist(), part.tolist(), strict=True))
    return [replace(video, split=names[min(drawn[i], len(names) - 1)]) for i, video in enumerate(videos)]


def _names(shares: tuple[float, ...]) -> tuple[str, ...]:
    return SPLITS if len(shares) == 3 else ("train", "test")


# --- what an index holds and lacks -----------------------------------------------------------------------------------


def missing(index: Index) -> list[str]:
    """Lines about what an index lacks: keyframes, labels, splits, times, or files that are not where it says."""
    spans = [index.span(video) for video in range(len(index.video_ids))]
    lacking = {
        "no keyframes": [v for v, store in enumerate(index.keyframe_sources) if store is None],
        "keyframes that are not there any more": [
            v for v, s in enumerate(index.keyframe_sources) if s and not s.exists()
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
    gone = {name: path for name, path in index.features.items() if not path.exists()}
    return notes + [f"features {name} are not there any more: {path}" for name, path in gone.items()]


def statistics(index: Index) -> list[SplitStatistics]:
    """What each split holds, in the order train, val, test, others; then all together where there are several."""
    known = [split for split in SPLITS if split in index.splits]
    splits = [*known, *sorted({*index.splits} - {*known})]
    return [_statistics(index, split) for split in (splits if len(splits) == 1 else (*splits, None))]


def _statistics(index: Index, split: str | None) -> SplitStatistics:
    videos = [v for v, name in enumerate(index.splits) if split in (name, None)]
    spans = [index.span(v) for v in videos]
    labelled = [span for span in spans if np.any(index.label[span] != NO_LABEL)]
    ends = sum(int(index.targets(np.arange(span.start, span.stop)).sum()) for span in labelled)
    seconds = sum(float(index.seconds[span.stop - 1, 1] - index.seconds[span.start, 0]) for span in spans)
    return SplitStatistics(
        split="all" if split is None else split or "none",
        videos=len(videos),
        labelled=len(labelled),
        scenes=ends + len(labelled),  # the last scene of a video ends with the video, without a label
        shots=sum(int(span.stop - span.start) for span in spans),
        hours=None if np.isnan(seconds) else seconds / 3600,
    )
