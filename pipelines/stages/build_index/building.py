"""Building an index: reading its sources, putting labels on shots, drawing splits, writing.

A source is a folder of keyframe stores, MovieNet, BBC, OVSD, features with labels, or a list of scenes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from pipelines.datasets.annotations import VideoAnnotation, convert, fault, read_json
from pipelines.datasets.matching import MatchReport, match_annotation
from pipelines.datasets.movienet import SPLITS, is_movienet, read_movienet
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.datasets.shot_features import ShotFeatures, read_shot_feature_folder, shot_feature_files
from pipelines.datasets.sources import read_annotations
from pipelines.errors import BasslError, DatasetError
from pipelines.files import VIDEO_ENDINGS, check_output
from pipelines.results.replacing import check_corrected
from pipelines.stages.build_index import IndexReport, IndexSettings, SplitStatistics
from pipelines.stores.features import feature_file, open_features, write_features
from pipelines.stores.index import NO_LABEL, Index, IndexedVideo, joined, read_index, save_index
from pipelines.stores.keyframes import read_keyframes
from pipelines.video.inputs import safe_id

_INCOMPLETE = "has no keyframes or features"


def build(sources: Sequence[Path], settings: IndexSettings) -> IndexReport:
    """See :func:`pipelines.stages.build_index.build_index`."""
    files = [file for source in sources for file in (source, *source.glob("*.h5")) if file.is_file()]
    split_file = settings.split if isinstance(settings.split, Path) else None
    check_output(settings.run.output, (*files, *settings.labels, split_file), settings.run.overwrite)
    videos: list[IndexedVideo] = []
    features: dict[str, list[ShotFeatures]] = {}  # by name of the store
    incomplete: dict[str, str] = {}  # videos that are left out, and why
    for source in sources:
        some, records = _read_source(source, settings, incomplete)
        videos += some
        if records:
            name = f"{safe_id(source.resolve().name)}-{records[0].features.shape[1]}d"
            features.setdefault(name, []).extend(records)
    if incomplete and not videos:
        name, reason = next(iter(incomplete.items()))
        raise BasslError(f"nothing to index: no video is complete ({name}: {reason})")
    if not videos:
        raise BasslError("nothing to index: pass folders of keyframe stores, MovieNet, BBC, OVSD or .npz features")
    matches, notes = _label(videos, settings)
    if isinstance(settings.split, Path):
        videos = _listed_splits(videos, settings.split, incomplete)
    elif isinstance(settings.split, tuple):
        videos = _drawn_splits(videos, settings.split, settings.run.seed)
    splits = {video.split for video in videos}
    notes += [f"no video is in the split {name}" for name in SPLITS if any(splits) and name not in splits]
    notes += _reasons(incomplete, len(videos))
    recorded = {
        "split": str(settings.split) if isinstance(settings.split, Path) else settings.split,
        "seed": settings.run.seed,
        "tolerance": settings.matching.tolerance,
        "annotator": settings.matching.annotator,
    }
    stores = {name: settings.feature_folder / name for name in features}
    # raises before a file is replaced
    index = joined(settings.run.output, videos, recorded, doubtful=settings.matching.doubtful, features=stores)
    for name, records in features.items():
        _check_store(stores[name], records, settings.run.overwrite)
        for record in records:
            write_features(stores[name], name, record.video_id, record.features, color=record.color)
    save_index(index)
    return describe(settings.run.output, matches, notes)


def _check_store(store: Path, records: Sequence[ShotFeatures], overwrite: bool) -> None:
    """Check that features can be one store, and without ``overwrite`` that its files have the same features, because
    another index may use them. Raises BasslError."""
    if len(widths := sorted({record.features.shape[1] for record in records})) > 1:
        raise fault(store, f"features of different widths cannot be one store: {' and '.join(map(str, widths))}")
    for record in records:
        path = feature_file(store, record.video_id)
        if not overwrite and path.exists() and not np.array_equal(open_features(path).features, record.features):
            raise fault(path, "has other features; use another `feature_folder`, or use `overwrite=True`")


def _reasons(incomplete: Mapping[str, str], complete: int) -> list[str]:
    """Return notes on the videos that were left out: their number, and each damaged video."""
    if not incomplete:
        return []
    damaged = [f"{name} is left out: {reason}" for name, reason in sorted(incomplete.items()) if reason != _INCOMPLETE]
    count = f"{len(incomplete)} of {len(incomplete) + complete} videos are left out"
    return [f"{count}, {len(incomplete) - len(damaged)} of them because they have no keyframes or features", *damaged]


def describe(path: Path, matches: Mapping[str, MatchReport] = {}, notes: Sequence[str] = ()) -> IndexReport:
    index = read_index(path)
    return IndexReport(index, tuple(statistics(index)), matches, (*notes, *missing(index)))


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
        if video.video_id not in records:
            continue
        record = records.pop(video.video_id)
        if not np.isfinite(video.seconds).all():
            raise DatasetError(f"{video.source}: has no times in seconds, so {record.source} cannot be matched to it")
        label, match = match_annotation(record, video.frames, video.seconds, settings.matching.tolerance)
        videos[i] = replace(video, label=label, split=record.split or video.split)
        matches[video.video_id] = match
        if match.outside:
            ends = match.outside + match.scene_ends + match.at_video_end
            notes.append(f"{video.video_id}: {match.outside} of {ends} labeled scene ends are outside its shots")
    if records:
        are = "labeled video is" if len(records) == 1 else "labeled videos are"
        notes.append(f"{len(records)} {are} not among the sources: {_examples(sorted(records))}")
    return matches, notes


def _read_labels(path: Path, settings: IndexSettings) -> list[VideoAnnotation]:
    """Read labels of any kind. Raises BasslError for a prediction that nobody corrected, unless these are accepted."""
    records = read_annotations(path, settings.matching.annotator, settings.matching.frame_rate)
    if not settings.accept_predictions:
        for record in records:
            if record.scores is not None:  # a scenes.json
                remedy = ", or use `accept_predictions=True`"
                check_corrected(read_scene_list(record.source), str(record.source), remedy)
    return records


def _with_video_id(record: VideoAnnotation, video_ids: Set[str]) -> VideoAnnotation:
    """Give labels the id of their video: ids of videos with one name begin with the names of their folders."""
    parts = record.source.resolve().parent.parts[1:]
    longer = (safe_id("_".join((*parts[-depth:], record.video_id))) for depth in range(1, len(parts) + 1))
    full = safe_id(record.source.stem)  # of a video that is itself called "..._scenes"
    name = next((name for name in (record.video_id, full, *longer) if name in video_ids), record.video_id)
    return replace(record, video_id=name)


def _listed_splits(videos: list[IndexedVideo], path: Path, incomplete: Collection[str]) -> list[IndexedVideo]:
    """Return the videos with their splits in a JSON file, which may list videos that were left out."""
    split_of: dict[str, str] = {}
    for split, names in convert(read_json(path), dict[str, list[str]], path).items():
        for name in names:
            if split_of.setdefault(name, split) != split:
                raise DatasetError(f"{path}: {name} is in two splits, {split_of[name]} and {split}")
    unknown = sorted(split_of.keys() - {video.video_id for video in videos} - set(incomplete))
    if unknown:
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


# --- sources ---------------------------------------------------------------------------------------------------------


def _read_source(
    source: Path, settings: IndexSettings, incomplete: dict[str, str]
) -> tuple[list[IndexedVideo], Sequence[ShotFeatures]]:
    """Read the videos of a source of any kind, and the features of .npz files. With ``only_complete``, damaged videos
    are left out and added to ``incomplete``. Raises BasslError for an unsupported kind of source, or a damaged one."""
    if not source.exists():
        raise DatasetError(f"{source}: no such file or folder")
    left_out, rate = incomplete if settings.only_complete else None, settings.matching.frame_rate
    readers: list[tuple[str, Callable[[], IndexedVideo]]]
    if is_movienet(source):  # first: a search for files in it would visit five million
        records = read_movienet(source, left_out)
        readers = [(record.video_id, partial(_from_annotation, record, rate)) for record in records]
    elif stores := [source] if source.suffix == ".h5" else sorted(source.glob("[!.]*.h5")):
        if source / "index.h5" in stores and (source / "keyframes").is_dir():  # without it: a video called index
            raise fault(source, f"contains an index; give its folder of keyframe stores, such as {source}/keyframes")
        readers = [(path.stem, partial(_from_store, path)) for path in stores]
    elif next(shot_feature_files(source), None) is not None:
        features = read_shot_feature_folder(source, left_out)
        return [_from_features(record, source, rate) for record in features], features
    else:
        records = _annotations(source, settings)
        readers = [(record.video_id, partial(_from_annotation, record, rate)) for record in records]
    videos = []
    for name, read in readers:
        try:
            video = read()
            if settings.only_complete and video.keyframe_source is None:
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
        raise DatasetError(f"{error}; for videos, run `bassl extract-keyframes` first") from error


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


# --- what an index contains ------------------------------------------------------------------------------------------


def _examples(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def missing(index: Index) -> list[str]:
    """Return a note for each kind of content that some videos lack."""
    labeled = index.videos_of(labeled=True)
    without = {
        "no keyframes": [v for v, store in enumerate(index.keyframe_sources) if store is None],
        "keyframes that no longer exist": [v for v, s in enumerate(index.keyframe_sources) if s and not s.exists()],
        "no labels": [v for v in range(len(index.video_ids)) if v not in labeled],
        "no split": [v for v, split in enumerate(index.splits) if not split],
        "no times in seconds": np.flatnonzero(np.isnan(index.seconds[index.first_row[:-1], 0])).tolist(),
    }
    notes = []
    for what, videos in without.items():
        if videos:
            names = _examples([index.video_ids[v] for v in videos])
            notes.append(f"{len(videos)} of {len(index.video_ids)} videos have {what}: {names}")
    return notes + [
        f"features {name} no longer exist: {path}" for name, path in index.features.items() if not path.exists()
    ]


def statistics(index: Index) -> list[SplitStatistics]:
    """Count each split: train, val, test, others; and then all, if there are several."""
    usual = [split for split in SPLITS if split in index.splits]
    splits: list[str | None] = [*usual, *sorted({*index.splits} - {*usual})]
    rows = []
    for split in splits if len(splits) == 1 else (*splits, None):
        selected = None if split is None else (split,)
        videos, labeled = index.videos_of(selected), index.videos_of(selected, labeled=True)
        spans = map(index.span, videos)
        seconds = sum(float(index.seconds[span.stop - 1, 1] - index.seconds[span.start, 0]) for span in spans)
        counts = SplitStatistics(
            split="all" if split is None else split or "none",
            videos=len(videos),
            labeled=len(labeled),
            # the last scene of a video ends with the video, without a label
            scenes=int(index.targets(index.rows(labeled)).sum()) + len(labeled),
            shots=len(index.rows(videos)),
            hours=None if np.isnan(seconds) else seconds / 3600,
        )
        rows.append(counts)
    return rows
