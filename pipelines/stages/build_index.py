"""The index of all shots of all videos: reading its sources, putting labels on shots, drawing splits, writing.

A source is a folder of keyframe stores, MovieNet, BBC, OVSD, features with labels, or a list of scenes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from pipelines.datasets import VideoAnnotation, convert, fault, read_json
from pipelines.datasets.matching import MatchReport, match_annotation
from pipelines.datasets.movienet import SPLITS, is_movienet, read_movienet
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.datasets.sources import ShotFeatures, read_annotations, read_shot_feature_folder, shot_feature_files
from pipelines.errors import BasslError, DatasetError
from pipelines.files import VIDEO_ENDINGS, as_paths, check_output
from pipelines.options import resolve_settings
from pipelines.results.replacing import check_corrected
from pipelines.stages.settings import IndexSettings
from pipelines.stores.features import feature_file, open_features, write_features
from pipelines.stores.index import NO_LABEL, Index, IndexedVideo, joined, read_index, save_index
from pipelines.stores.keyframes import read_keyframes
from pipelines.video.inputs import safe_id

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import IndexOptions

_INCOMPLETE = "has no keyframes or features"
_EXTRACT = "for videos, run `bassl extract-keyframes` first"


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
    settings: IndexSettings | None = None,
    **options: Unpack[IndexOptions],
) -> IndexReport:
    """Build the index of all shots of all videos.

    A source is a folder of keyframe stores or one store, MovieNet's folder, BBC's, OVSD's, a folder of ``.npz`` with
    features, shots and labels, or a ``scenes.json``; its kind is detected from the files. Raises BasslError, one line,
    for a source of another kind, damaged or contradictory files, or an existing index."""
    settings, sources = resolve_settings(IndexSettings, settings, options), as_paths(sources)
    output, overwrite, split, matching = settings.run.output, settings.run.overwrite, settings.split, settings.matching
    files = [file for source in sources for file in (source, *source.glob("*.h5")) if file.is_file()]
    check_output(output, (*files, *settings.labels, split if isinstance(split, Path) else None), overwrite)
    videos: list[IndexedVideo] = []
    features: dict[str, list[ShotFeatures]] = {}  # by name of the store
    left_out: dict[str, str] | None = {} if settings.only_complete else None  # videos, and why
    for source in sources:
        some, records = _read_source(source, settings, left_out)
        videos += some
        if records:
            name = f"{safe_id(source.resolve().name)}-{records[0].features.shape[1]}d"
            features.setdefault(name, []).extend(records)
    if not videos:
        if left_out:
            name, reason = next(iter(left_out.items()))
            raise BasslError(f"nothing to index: no video is complete ({name}: {reason})")
        raise BasslError("nothing to index: pass folders of keyframe stores, MovieNet, BBC, OVSD or .npz features")
    matches, notes = _label(videos, settings)
    if isinstance(split, Path):
        videos = _listed_splits(videos, split, left_out or ())
    elif isinstance(split, tuple):
        videos = _drawn_splits(videos, split, settings.run.seed)
    splits = {video.split for video in videos}
    notes += [f"no video is in the split {name}" for name in SPLITS if any(splits) and name not in splits]
    if left_out:
        damaged = [f"{name} is left out: {why}" for name, why in sorted(left_out.items()) if why != _INCOMPLETE]
        why = f"{len(left_out) - len(damaged)} of them because they have no keyframes or features"
        notes += [f"{len(left_out)} of {len(left_out) + len(videos)} videos are left out, {why}", *damaged]
    recorded = {
        "split": str(split) if isinstance(split, Path) else split,
        "seed": settings.run.seed,
        "tolerance": matching.tolerance,
        "annotator": matching.annotator,
    }
    stores = {name: settings.feature_folder / name for name in features}
    index = joined(output, videos, recorded, doubtful=matching.doubtful, features=stores)  # before a file is replaced
    for name, records in features.items():
        _check_store(stores[name], records, overwrite)
        for record in records:
            write_features(stores[name], name, record.video_id, record.features, color=record.color)
    save_index(index)
    report = describe_index(output)
    return replace(report, matches=matches, notes=(*notes, *report.notes))


def describe_index(path: Path | str) -> IndexReport:
    """Return the statistics of an index, and notes on what is missing. Raises StoreError if it is unusable."""
    index = read_index(Path(path))
    return IndexReport(index, tuple(_statistics(index)), {}, tuple(_missing(index)))


def _check_store(store: Path, records: Sequence[ShotFeatures], overwrite: bool) -> None:
    """Check that features have one width, and without ``overwrite`` replace no others. Raises BasslError."""
    if len(widths := sorted({record.features.shape[1] for record in records})) > 1:
        raise fault(store, f"features of different widths cannot be one store: {' and '.join(map(str, widths))}")
    for record in records:
        path = feature_file(store, record.video_id)
        if not overwrite and path.exists() and not np.array_equal(open_features(path).features, record.features):
            raise fault(path, "has other features; use another `feature_folder`, or use `overwrite=True`")


def _label(videos: list[IndexedVideo], settings: IndexSettings) -> tuple[dict[str, MatchReport], list[str]]:
    """Give the videos the labels of the label files. Return how these were matched to shots, and notes."""
    video_ids = {video.video_id for video in videos}
    records: dict[str, VideoAnnotation] = {}
    for path in settings.labels:
        for record in _read_labels(path, settings):
            record = _with_video_id(record, video_ids)
            if (first := records.setdefault(record.video_id, record)) is not record:
                raise DatasetError(f"{record.source}: labels {record.video_id}, which {first.source} labels too")
    matches, notes = dict[str, MatchReport](), list[str]()
    for i, video in enumerate(videos):
        if (annotation := records.pop(video.video_id, None)) is None:
            continue
        if not np.isfinite(video.seconds).all():
            raise DatasetError(f"{video.source}: has no times in seconds to match {annotation.source} by")
        label, match = match_annotation(annotation, video.frames, video.seconds, settings.matching.tolerance)
        videos[i] = replace(video, label=label, split=annotation.split or video.split)
        matches[video.video_id] = match
        if match.outside:
            ends = match.outside + match.scene_ends + match.at_video_end
            notes.append(f"{video.video_id}: {match.outside} of {ends} labeled scene ends are outside its shots")
        if match.unmatched:
            missed = f"{len(match.unmatched)} of {match.scene_ends} scene ends have no shot end within the tolerance"
            notes.append(f"{video.video_id}: {missed} (the first at {match.unmatched[0]:.1f} s)")
    if records:
        are = "labeled video is" if len(records) == 1 else "labeled videos are"
        notes.append(f"{len(records)} {are} not among the sources: {_examples(sorted(records))}")
    return matches, notes


def _read_labels(path: Path, settings: IndexSettings) -> list[VideoAnnotation]:
    """Read labels of any kind. Raises BasslError for a prediction that nobody corrected, unless these are accepted."""
    records = read_annotations(path, settings.matching.annotator, settings.matching.frame_rate)
    for record in records:
        if record.scores is not None and not settings.accept_predictions:  # a scenes.json
            check_corrected(read_scene_list(record.source), str(record.source), ", or use `accept_predictions=True`")
    return records


def _with_video_id(record: VideoAnnotation, video_ids: Set[str]) -> VideoAnnotation:
    """Give labels the id of their video: ids of videos with one name begin with the names of their folders."""
    parts = record.source.resolve().parent.parts[1:]
    longer = (safe_id("_".join((*parts[-depth:], record.video_id))) for depth in range(1, len(parts) + 1))
    full = safe_id(record.source.stem)  # of a video that is itself called "..._scenes"
    name = next((name for name in (record.video_id, full, *longer) if name in video_ids), record.video_id)
    return replace(record, video_id=name)


def _listed_splits(videos: list[IndexedVideo], path: Path, left_out: Collection[str]) -> list[IndexedVideo]:
    """Return the videos with their splits in a JSON file, which may list videos that were left out."""
    split_of: dict[str, str] = {}
    for split, names in convert(read_json(path), dict[str, list[str]], path).items():
        for name in names:
            if split_of.setdefault(name, split) != split:
                raise DatasetError(f"{path}: {name} is in two splits, {split_of[name]} and {split}")
    if unknown := sorted(split_of.keys() - {video.video_id for video in videos} - set(left_out)):
        raise DatasetError(f"{path}: lists {unknown[0]}, which is not among the videos")
    return [replace(video, split=split_of.get(video.video_id, "")) for video in videos]


def _drawn_splits(videos: list[IndexedVideo], shares: tuple[float, ...], seed: int) -> list[IndexedVideo]:
    """Draw whole videos, so that the shots of a video are never in two splits."""
    names = SPLITS if len(shares) == 3 else ("train", "test")
    videos = sorted(videos, key=lambda video: video.video_id)
    order = np.random.default_rng(seed).permutation(len(videos))
    bounds = np.round(np.cumsum(shares) * len(videos)).astype(int)
    for split, part in zip(names, np.split(order, bounds[:-1]), strict=True):
        for i in part:
            videos[i] = replace(videos[i], split=split)
    return videos


def _read_source(
    source: Path, settings: IndexSettings, left_out: dict[str, str] | None
) -> tuple[list[IndexedVideo], Sequence[ShotFeatures]]:
    """Read the videos of a source of any kind, and the features of .npz files. Damaged videos are added to
    ``left_out`` unless it is None. Raises BasslError for an unsupported kind of source, or a damaged one."""
    if not source.exists():
        raise DatasetError(f"{source}: no such file or folder; {_EXTRACT}")
    rate = settings.matching.frame_rate
    readers: Sequence[tuple[str, Callable[[], IndexedVideo]]]
    if is_movienet(source):  # first: a search for files in it would visit five million
        records = read_movienet(source, left_out)
        readers = [(record.video_id, partial(_from_annotation, record, rate)) for record in records]
    elif stores := [source] if source.suffix == ".h5" else sorted(source.glob("[!.]*.h5")):
        if source / "index.h5" in stores and (source / "keyframes").is_dir():  # without it: a video called index
            raise fault(source, f"contains an index; give its folder of keyframe stores, such as {source}/keyframes")
        readers = [(path.stem, partial(_from_store, path)) for path in stores]
    elif next(shot_feature_files(source), None) is not None:
        features = read_shot_feature_folder(source, left_out)
        return [_from_features(video, source, rate) for video in features], features
    else:
        records = _annotations(source, settings)
        readers = [(record.video_id, partial(_from_annotation, record, rate)) for record in records]
    videos = []
    for name, read in readers:
        try:
            video = read()
            if left_out is not None and video.keyframe_source is None:
                raise DatasetError(_INCOMPLETE)
            videos.append(video)
        except BasslError as error:
            if left_out is None:
                raise
            left_out[name] = str(error)
    return videos, ()


def _annotations(source: Path, settings: IndexSettings) -> list[VideoAnnotation]:
    try:
        return _read_labels(source, settings)
    except DatasetError as error:
        if not any(path.suffix.lower() in VIDEO_ENDINGS for path in (source, *source.glob("*"))):
            raise
        raise DatasetError(f"{error}; {_EXTRACT}") from error


def _from_store(path: Path) -> IndexedVideo:
    store = read_keyframes(path)
    shots, images = store.keyframes.shape
    # (N, N_k + 1): the starts of the JPEGs of each shot, and the end of the last one.
    bounds = np.arange(shots)[:, None] * images + np.arange(images + 1)
    return IndexedVideo(
        video_id=path.stem,
        source=str(path),
        frames=store.frames,
        seconds=store.seconds,
        label=np.full(shots, NO_LABEL, np.int8),
        keyframe_source=path,
        keyframes=images,
        jpeg=store.jpeg_offsets[bounds],
        jpeg_crc32=store.jpeg_crc32.reshape(shots, images),
        keyframe_settings=store.settings,
    )


def _from_features(record: ShotFeatures, source: Path, rate: float | None) -> IndexedVideo:
    frame_rate = record.frame_rate or rate or float("nan")
    return IndexedVideo(
        video_id=record.video_id,
        source=str(source),
        frames=record.shots,
        seconds=record.shots / frame_rate,
        label=np.append(record.scene_end[:-1], 0).astype(np.int8),  # the video's end is not a scene end to predict
    )


def _from_annotation(record: VideoAnnotation, rate: float | None) -> IndexedVideo:
    shots = record.number_of_shots
    if shots is None:
        problem = f"has labels of {record.video_id}, but not its shots"
        raise fault(record.source, f"{problem}; extract keyframes of the video, and give this file with `labels`")
    jpegs, frame_rate = record.keyframes, record.frame_rate or rate or float("nan")
    if record.shots is not None:
        frames = record.shots
        seconds = frames / frame_rate if record.shots_seconds is None else record.shots_seconds
    else:  # MovieNet's videos without a shot list have keyframes only: each shot then counts as one frame
        frames = np.arange(shots)[:, None] + np.arange(2)
        seconds = np.full((shots, 2), np.nan)
    return IndexedVideo(
        video_id=record.video_id,
        source=str(record.source),
        frames=frames,
        seconds=seconds,
        label=np.full(shots, NO_LABEL, np.int8) if record.scene_end is None else record.scene_end,
        split=record.split or "",
        keyframe_source=None if jpegs is None else jpegs.folder,
        keyframes=0 if jpegs is None else jpegs.images,
    )


def _statistics(index: Index) -> Iterator[SplitStatistics]:
    """Count each split: train, val, test, others; and then all, if there are several."""
    usual = [split for split in SPLITS if split in index.splits]
    splits: list[str | None] = [*usual, *sorted({*index.splits} - {*usual})]
    for split in splits if len(splits) == 1 else (*splits, None):
        selected = None if split is None else (split,)
        videos, labeled = index.videos_of(selected), index.videos_of(selected, labeled=True)
        spans = map(index.span, videos)
        seconds = sum(float(index.seconds[span.stop - 1, 1] - index.seconds[span.start, 0]) for span in spans)
        yield SplitStatistics(
            split="all" if split is None else split or "none",
            videos=len(videos),
            labeled=len(labeled),
            # the last scene of a video ends with the video, without a label
            scenes=int(index.targets(index.rows(labeled)).sum()) + len(labeled),
            shots=len(index.rows(videos)),
            hours=None if np.isnan(seconds) else seconds / 3600,
        )


def _missing(index: Index) -> Iterator[str]:
    """Yield a note for each kind of content that some videos lack."""
    labeled, stores = index.videos_of(labeled=True), index.keyframe_sources
    without = {
        "no keyframes": [video for video, store in enumerate(stores) if store is None],
        "keyframes that no longer exist": [video for video, store in enumerate(stores) if store and not store.exists()],
        "no labels": [video for video in range(len(stores)) if video not in labeled],
        "no split": [video for video, split in enumerate(index.splits) if not split],
        "no times in seconds": np.flatnonzero(np.isnan(index.seconds[index.first_row[:-1], 0])).tolist(),
    }
    for what, videos in without.items():
        if videos:
            names = _examples([index.video_ids[video] for video in videos])
            yield f"{len(videos)} of {len(index.video_ids)} videos have {what}: {names}"
    for name, path in index.features.items():
        if not path.exists():
            yield f"features {name} no longer exist: {path}"


def _examples(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
