"""Building an index: reading its sources, putting labels on shots, drawing splits, writing.

A source is a folder of keyframe stores, MovieNet, BBC, OVSD, features with labels, or a list of scenes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pipelines.datasets.annotations import KeyframeFolder, VideoAnnotation, fault, read_json
from pipelines.datasets.matching import MatchReport, match_annotation
from pipelines.datasets.movienet import SPLITS, is_movienet, keyframe_name, movienet_of_part, read_jpeg, read_movienet
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.datasets.shot_features import ShotFeatures, read_shot_feature_folder, shot_feature_files
from pipelines.datasets.sources import read_annotations
from pipelines.errors import BasslError, DatasetError
from pipelines.files import VIDEO_ENDINGS, check_output
from pipelines.results.replacing import check_corrected
from pipelines.scenes import VideoFacts
from pipelines.stages.build_index import IndexReport, IndexSettings, SplitStatistics
from pipelines.stores.features import feature_file, open_features, write_features
from pipelines.stores.index import NO_LABEL, Index, IndexedVideo, joined, read_index, save_index
from pipelines.stores.keyframes import StoredShot, read_keyframes, write_keyframes
from pipelines.video.images import from_jpeg
from pipelines.video.inputs import safe_id

_INCOMPLETE = "has no keyframes or features"


def build(sources: Sequence[Path], settings: IndexSettings) -> IndexReport:
    """See :func:`pipelines.stages.build_index.build_index`."""
    files = [file for source in sources for file in (source, *source.glob("*.h5")) if file.is_file()]
    split_file = settings.split if isinstance(settings.split, Path) else None
    check_output(settings.run.output, (*files, *settings.labels, split_file), settings.run.overwrite)
    videos: list[IndexedVideo] = []
    features: dict[str, list[ShotFeatures]] = {}  # by name of the store
    incomplete: dict[str, str] = {}
    for path in sources:
        source = _read_source(path, settings)
        videos += source.videos
        incomplete |= source.incomplete
        if source.features:
            name = f"{safe_id(path.resolve().name)}-{source.features[0].features.shape[1]}d"
            features.setdefault(name, []).extend(source.features)
    if incomplete and not videos:
        name, reason = next(iter(incomplete.items()))
        raise BasslError(f"nothing to index: no video is complete ({name}: {reason})")
    if not videos:
        raise BasslError("nothing to index: name folders of keyframe stores, MovieNet, BBC, OVSD or .npz features")
    if (rate := settings.matching.frame_rate) is not None:
        for i, video in enumerate(videos):
            if np.isnan(video.frame_rate) and not np.isfinite(video.seconds).all():
                videos[i] = replace(video, seconds=video.frames / rate, frame_rate=rate)
    videos, matches, notes = _label(videos, settings)
    splits: Iterable[str] = SPLITS if any(video.split for video in videos) else ()
    if isinstance(settings.split, Path):
        videos, splits = _listed_splits(videos, settings.split, incomplete)
    elif isinstance(settings.split, tuple):
        videos = _drawn_splits(videos, settings.split, settings.run.seed)
        splits = [name for name, share in zip(_names(settings.split), settings.split, strict=True) if share]
    notes += _twins(videos)
    notes += [f"no video is in the split {name}" for name in splits if name not in {video.split for video in videos}]
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
        _check_widths(stores[name], records)
        if not settings.run.overwrite:
            _check_kept(stores[name], records)
        for record in records:
            write_features(stores[name], name, record.video_id, record.features, color=record.color)
    save_index(index)
    return describe(settings.run.output, matches, notes)


def _twins(videos: Sequence[IndexedVideo]) -> list[str]:
    """Return a note for each video file that several videos were made from."""
    by_file: dict[str, list[str]] = {}
    for video in videos:
        if video.made_of:
            by_file.setdefault(video.made_of, []).append(video.video_id)
    return [
        f"{' and '.join(names)} are the same video; delete all but one, or it may be in two splits"
        for _, names in sorted(by_file.items())
        if len(names) > 1
    ]


def _check_widths(store: Path, records: Sequence[ShotFeatures]) -> None:
    features = {record.features.shape[1] for record in records}
    color = {record.color.shape[1] for record in records if record.color is not None}
    for what, widths in (("features", features), ("color", color)):
        if len(widths) > 1:
            different = " and ".join(map(str, sorted(widths)))
            raise fault(store, f"{what} of different widths cannot be one store: {different}")


def _check_kept(store: Path, records: Sequence[ShotFeatures]) -> None:
    """Check that existing files of a store have these features, as another index may use them. Raises BasslError."""
    for record in records:
        path = feature_file(store, record.video_id)
        if path.exists() and not np.array_equal(open_features(path).features, record.features):
            raise fault(path, "has other features; name another `feature_folder`, or use `overwrite=True`")


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


def _label(
    videos: list[IndexedVideo], settings: IndexSettings
) -> tuple[list[IndexedVideo], dict[str, MatchReport], list[str]]:
    """Return the videos with the labels of the label files, how these were matched to shots, and notes."""
    video_ids = {video.video_id for video in videos}
    records: dict[str, VideoAnnotation] = {}
    for path in settings.labels:
        for record in _read_labels(path, settings):
            record = _with_video_id(record, video_ids)
            if record.video_id in records:
                first = records[record.video_id].source
                raise DatasetError(f"{record.source}: labels {record.video_id}, which {first} labels too")
            records[record.video_id] = record
    matches, labeled = {}, []
    for video in videos:
        if video.video_id not in records:
            labeled.append(video)
            continue
        record = records.pop(video.video_id)
        if not np.isfinite(video.seconds).all():
            raise DatasetError(f"{video.source}: has no times in seconds, so {record.source} cannot be matched to it")
        label, matches[video.video_id] = match_annotation(
            record, video.frames, video.seconds, settings.matching.tolerance
        )
        labeled.append(replace(video, label=label, split=record.split or video.split))
    notes = [
        f"{name}: {match.outside} of {match.outside + match.scene_ends + match.at_video_end} labeled scene ends are "
        "outside its shots"
        for name, match in matches.items()
        if match.outside
    ]
    if records:
        are = "labeled video is" if len(records) == 1 else "labeled videos are"
        notes.append(f"{len(records)} {are} not among the sources: {_examples(sorted(records))}")
    return labeled, matches, notes


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


def _listed_splits(
    videos: list[IndexedVideo], path: Path, incomplete: Collection[str]
) -> tuple[list[IndexedVideo], list[str]]:
    """Return the videos with their splits in a JSON file, which may list videos that were left out, and all splits."""
    content = read_json(path)
    if not isinstance(content, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in content.values()
    ):
        raise fault(path, 'has no list of video ids for each split, such as {"train": [...], "val": [...]}')
    split_of: dict[str, str] = {}
    for split, names in content.items():
        for name in names:
            if split_of.setdefault(name, split) != split:
                raise DatasetError(f"{path}: {name} is in two splits, {split_of[name]} and {split}")
    unknown = sorted(split_of.keys() - {video.video_id for video in videos} - set(incomplete))
    if unknown:
        raise DatasetError(f"{path}: lists {unknown[0]}, which is not among the videos")
    return [replace(video, split=split_of.get(video.video_id, "")) for video in videos], list(content)


def _drawn_splits(videos: list[IndexedVideo], shares: tuple[float, ...], seed: int) -> list[IndexedVideo]:
    """Draw whole videos, so that the shots of a video are never in two splits."""
    videos = sorted(videos, key=lambda video: video.video_id)
    order = np.random.default_rng(seed).permutation(len(videos))
    bounds = np.round(np.cumsum(shares) * len(videos)).astype(int)
    for split, part in zip(_names(shares), np.split(order, bounds[:-1]), strict=True):
        for i in part:
            videos[i] = replace(videos[i], split=split)
    return videos


def _names(shares: tuple[float, ...]) -> tuple[str, ...]:
    return SPLITS if len(shares) == 3 else ("train", "test")


# --- sources ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Source:
    """Videos of a source."""

    videos: list[IndexedVideo]
    incomplete: Mapping[str, str]  # videos that were left out, and why
    features: Sequence[ShotFeatures] = ()  # of the videos of .npz files


def _read_source(source: Path, settings: IndexSettings) -> _Source:
    """Read a source of any kind; with ``only_complete``, damaged videos are left out. Raises BasslError for an
    unsupported kind of source, or a damaged one."""
    if not source.exists():
        raise DatasetError(f"{source}: no such file or folder")
    # A file of another program beside MovieNet's folders is not a keyframe store.
    stores = [] if is_movienet(source) else sorted(source.glob("[!.]*.h5"))
    if source.suffix == ".h5":
        stores = [source]
    if source / "index.h5" in stores and (source / "keyframes").is_dir():  # without it: a video called index
        raise fault(source, f"contains an index; give its folder of keyframe stores, such as {source / 'keyframes'}")
    if source.is_dir() and (whole := movienet_of_part(source)) is not None:
        raise DatasetError(f"{source}: is a part of MovieNet; give the whole data set, {whole}")
    incomplete: dict[str, str] = {}
    left_out = incomplete if settings.only_complete else None
    readers: list[tuple[str, Callable[[], IndexedVideo]]]
    if stores:
        readers = [(path.stem, partial(_from_store, path)) for path in stores]
    # MovieNet first: a search for files in it would visit five million.
    elif not is_movienet(source) and next(shot_feature_files(source), None) is not None:
        features = read_shot_feature_folder(source, left_out)
        return _Source([_from_features(record, source) for record in features], incomplete, features)
    else:
        records = read_movienet(source, left_out) if is_movienet(source) else _annotations(source, settings)
        readers = [(record.video_id, partial(_from_annotation, record, settings)) for record in records]
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
    return _Source(videos, incomplete)


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
        frame_rate=store.video.frame_rate,
        keyframe_source=path,
        keyframes=images,
        jpeg=store.jpeg_offsets[bounds],
        jpeg_crc32=store.jpeg_crc32.reshape(shots, images),
        made_of=store.source.get("fingerprint") or "",
    )


def _from_features(record: ShotFeatures, source: Path) -> IndexedVideo:
    frame_rate = record.frame_rate or float("nan")
    return IndexedVideo(
        video_id=record.video_id,
        source=str(source),
        frames=record.shots,
        seconds=record.shots / frame_rate,
        label=np.append(record.scene_end[:-1], 0).astype(np.int8),  # the video's end is not a scene end to predict
        frame_rate=frame_rate,
    )


def _from_annotation(record: VideoAnnotation, settings: IndexSettings) -> IndexedVideo:
    shots = record.number_of_shots
    if shots is None:
        problem = f"has labels of {record.video_id}, but not its shots"
        raise fault(record.source, f"{problem}; extract keyframes of the video, and give this file with `labels`")
    jpegs, frame_rate = record.keyframes, record.frame_rate or float("nan")
    if record.shots is not None:
        frames = record.shots
        seconds = frames / frame_rate if record.shots_seconds is None else record.shots_seconds
    else:  # MovieNet's videos without a shot list have keyframes only: each shot then counts as one frame
        frames = np.arange(shots)[:, None] + np.arange(2)
        seconds = np.full((shots, 2), np.nan)
    video = IndexedVideo(
        video_id=record.video_id,
        source=str(record.source),
        frames=frames,
        seconds=seconds,
        label=np.full(shots, NO_LABEL, np.int8) if record.scene_end is None else record.scene_end,
        split=record.split or "",
        frame_rate=frame_rate,
        keyframe_source=None if jpegs is None else jpegs.folder,
        keyframes=0 if jpegs is None else jpegs.images,
    )
    return video if settings.pack is None or jpegs is None else _pack(video, jpegs, settings)


def _pack(video: IndexedVideo, jpegs: KeyframeFolder, settings: IndexSettings) -> IndexedVideo:
    """Copy the JPEG files of a video into a keyframe store, without encoding them again."""
    assert settings.pack is not None
    path = settings.pack / f"{video.video_id}.h5"
    if settings.run.overwrite or not path.exists():
        # MovieNet's keyframes are at 1/4, 1/2 and 3/4 of a shot. A store needs times, too.
        seconds = video.seconds if np.isfinite(video.seconds).all() else video.frames.astype(np.float64)
        count = jpegs.images
        shots = (
            StoredShot(
                (start, end),
                (begin, finish),
                tuple(start + (end - start) * k // (count + 1) for k in range(1, count + 1)),
                tuple(read_jpeg(jpegs.folder / keyframe_name(shot, image)) for image in range(count)),
            )
            for shot, ((start, end), (begin, finish)) in enumerate(
                zip(video.frames.tolist(), seconds.tolist(), strict=True)
            )
        )
        first = jpegs.folder / keyframe_name(0, 0)
        try:
            height, width, _ = from_jpeg(read_jpeg(first)).shape
        except ValueError as error:
            raise DatasetError(f"{first}: is {error}") from error
        length = float(seconds[-1, 1])
        facts = VideoFacts(video.video_id, width, height, length, int(video.frames[-1, 1]), video.frame_rate)
        write_keyframes(
            path,
            shots,
            lambda: (facts, {"name": video.video_id, "bytes": 0}),
            {"packed": True, "keyframes": video.keyframes},
        )
    packed = _from_store(path)
    if packed.keyframes != video.keyframes or not np.array_equal(packed.frames, video.frames):
        raise DatasetError(f"{path}: has other shots or keyframes than {video.source}; use `overwrite=True`")
    return replace(video, keyframe_source=path, jpeg=packed.jpeg, jpeg_crc32=packed.jpeg_crc32)


# --- what an index contains ------------------------------------------------------------------------------------------


def _examples(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def missing(index: Index) -> list[str]:
    """Return a note for each kind of content that some videos lack."""
    spans = [index.span(video) for video in range(len(index.video_ids))]
    without = {
        "no keyframes": [v for v, store in enumerate(index.keyframe_sources) if store is None],
        "keyframes that no longer exist": [v for v, s in enumerate(index.keyframe_sources) if s and not s.exists()],
        "no labels": [v for v, span in enumerate(spans) if np.all(index.label[span] == NO_LABEL)],
        "no split": [v for v, split in enumerate(index.splits) if not split],
        "no times in seconds": [v for v, span in enumerate(spans) if np.isnan(index.seconds[span.start, 0])],
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
        spans = [index.span(v) for v, name in enumerate(index.splits) if split in (name, None)]
        labeled = [span for span in spans if np.any(index.label[span] != NO_LABEL)]
        ends = sum(int(index.targets(np.arange(span.start, span.stop)).sum()) for span in labeled)
        seconds = sum(float(index.seconds[span.stop - 1, 1] - index.seconds[span.start, 0]) for span in spans)
        counts = SplitStatistics(
            split="all" if split is None else split or "none",
            videos=len(spans),
            labeled=len(labeled),
            scenes=ends + len(labeled),  # the last scene of a video ends with the video, without a label
            shots=sum(int(span.stop - span.start) for span in spans),
            hours=None if np.isnan(seconds) else seconds / 3600,
        )
        rows.append(counts)
    return rows
