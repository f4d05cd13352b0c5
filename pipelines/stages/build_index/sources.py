"""Reading the sources of an index: keyframe stores, MovieNet, BBC, OVSD, features with labels, or scene lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pipelines.datasets.annotations import KeyframeFolder, VideoAnnotation, fault
from pipelines.datasets.movienet import is_movienet, keyframe_name, movienet_of_part, read_jpeg, read_movienet
from pipelines.datasets.shot_features import ShotFeatures, read_shot_feature_folder, shot_feature_files
from pipelines.datasets.sources import read_annotations
from pipelines.errors import BasslError, DatasetError
from pipelines.scenes import VideoFacts
from pipelines.stages.build_index import IndexSettings
from pipelines.stores.index import NO_LABEL, IndexedVideo
from pipelines.stores.jpeg import from_jpeg
from pipelines.stores.keyframes import StoredShot, read_keyframes, write_keyframes
from pipelines.video.inputs import VIDEO_ENDINGS

INCOMPLETE = "has no keyframes or features"


@dataclass(frozen=True, eq=False)
class Source:
    """Videos of a source."""

    videos: list[IndexedVideo]
    incomplete: Mapping[str, str]  # videos that were left out, and why
    features: Sequence[ShotFeatures] = ()  # of the videos of .npz files


def read_source(source: Path, settings: IndexSettings) -> Source:
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
        return Source([_from_features(record, source) for record in features], incomplete, features)
    else:
        records = read_movienet(source, left_out) if is_movienet(source) else _annotations(source, settings)
        readers = [(record.video_id, partial(_from_annotation, record, settings)) for record in records]
    videos = []
    for name, read in readers:
        try:
            video = read()
            if settings.only_complete and video.keyframe_source is None:
                raise DatasetError(INCOMPLETE)
            videos.append(video)
        except BasslError as error:
            if left_out is None:
                raise
            left_out[name] = str(error)
    return Source(videos, incomplete)


def _annotations(source: Path, settings: IndexSettings) -> list[VideoAnnotation]:
    try:
        return read_annotations(source, settings.matching.annotator, settings.matching.frame_rate)
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
        made_of=store.source["sha256"],
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
    """The video with its JPEG files copied into a keyframe store without encoding them again."""
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
            lambda: (facts, {"name": video.video_id, "bytes": 0, "sha256": ""}),
            {"packed": True, "keyframes": video.keyframes},
        )
    packed = _from_store(path)
    if packed.keyframes != video.keyframes or not np.array_equal(packed.frames, video.frames):
        raise DatasetError(f"{path}: has other shots or keyframes than {video.source}; use `overwrite=True`")
    return replace(video, keyframe_source=path, jpeg=packed.jpeg, jpeg_crc32=packed.jpeg_crc32)
