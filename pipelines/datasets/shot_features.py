"""Reader of per-shot features with scene labels in `.npz` files, on which the built-in model is trained."""

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.annotations import check_ranges, fault
from pipelines.errors import DatasetError, first_line
from pipelines.stores.index import ASSUMED_FRAME_RATE
from pipelines.video.inputs import files_below

ARRAYS = ("features", "shots", "scene_end")
OPTIONAL_ARRAYS = ("color", "frame_rate")
# NumPy raises ValueError for arrays of Python objects, which need a pickle; zipfile raises RuntimeError for encrypted
# members and unknown compression.
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, RuntimeError, MemoryError, zlib.error, zipfile.BadZipFile)

# Ten thousand shots of 25,000 numbers: only a forged compressed file claims more.
_LARGEST_ARRAY = 2**30


@dataclass(frozen=True)
class ShotFeatures:
    """The shots of one video, with features and labels."""

    video_id: str  # name of the file's folder and its stem, such as `bbc/01`
    features: NDArray[np.float32]  # (N, D) float32, one encoding per shot
    shots: NDArray[np.int64]  # (N, 2), half-open frame ranges in order; gradual transitions may lie between them
    scene_end: NDArray[np.uint8]  # (N,) uint8, 1 at the last shot of a scene
    # (N, H) float32 hue histograms, each of sum 1 (`pipelines.models.encoders.shot_encoder`); None if the file has none
    color: NDArray[np.float32] | None = None
    frame_rate: float | None = None  # frames per second; None if unknown

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Return length of each shot in seconds, (N,); by `ASSUMED_FRAME_RATE` if the frame rate is unknown."""
        return np.asarray(np.diff(self.shots)[:, 0] / (self.frame_rate or ASSUMED_FRAME_RATE))


def read_shot_features(path: Path) -> ShotFeatures:
    """Read one `.npz` file. Raises DatasetError: the file is damaged, lacks an array, or its arrays are inconsistent or
    not as in `ShotFeatures`."""
    arrays = _read_arrays(path)
    features, shots, scene_end = (arrays[name] for name in ARRAYS)
    if features.ndim != 2 or 0 in features.shape or features.dtype.kind != "f":
        raise fault(path, f"features must be floating point (N, D), not {features.dtype} {features.shape}")
    N = len(features)
    for name, shape, dtype in (("shots", (N, 2), np.dtype(np.int64)), ("scene_end", (N,), np.dtype(np.uint8))):
        if (arrays[name].shape, arrays[name].dtype) != (shape, dtype):
            raise fault(path, f"{name} must be {dtype} {shape}, not {arrays[name].dtype} {arrays[name].shape}")
    with np.errstate(over="ignore"):  # float64 beyond the range of float32 becomes inf, which the check below finds
        features = features.astype(np.float32)
    if len(bad := np.flatnonzero(~np.isfinite(features).all(axis=1))):
        raise fault(path, f"features of shot {bad[0]} are not all finite ({len(bad)} such shots)")
    # TransNetV2's shot lists, used for the public sets, sometimes count the frame of a cut twice (three times in the
    # BBC set): it belongs to the later shot.
    shots[:-1, 1] -= shots[:-1, 1] == shots[1:, 0] + 1
    check_ranges(shots, "shot", path)
    if len(bad := np.flatnonzero(scene_end > 1)):
        raise fault(path, f"scene_end of shot {bad[0]} is {scene_end[bad[0]]}, not 0 or 1")
    color, rate = arrays.get("color"), arrays.get("frame_rate")
    if color is not None:
        if color.ndim != 2 or len(color) != N or color.dtype.kind != "f":
            raise fault(path, f"color must be floating point of the shape ({N}, H), not {color.dtype} {color.shape}")
        sums = color.sum(axis=1, keepdims=True, dtype=np.float64)
        if not np.isfinite(sums).all() or (color < 0).any() or (sums <= 0).any():
            raise fault(path, "color must be histograms: finite, not negative, each with a sum above 0")
        color = np.asarray(color / sums, np.float32)
    if rate is not None and (rate.shape != () or rate.dtype.kind not in "iuf" or not 0 < rate <= 1000):
        raise fault(path, f"frame_rate must be one number of frames per second, not {rate}")
    return ShotFeatures(_video_id(path), features, shots, scene_end, color, None if rate is None else float(rate))


def shot_feature_files(folder: Path) -> Iterator[Path]:
    """Return the `.npz` files below a folder, unsorted."""
    return (path for path in files_below(folder) if path.suffix == ".npz" and path.is_file())


def read_shot_feature_folder(folder: Path, left_out: dict[str, str] | None = None) -> list[ShotFeatures]:
    """Read every `.npz` below a folder, sorted by path. Raises DatasetError: there is none, two files have the same
    video id, or a file cannot be read. With ``left_out``, unreadable files go there instead, with the reason by video
    id."""
    paths = sorted(shot_feature_files(folder))
    if not paths:
        raise fault(folder, "contains no .npz file; name the folder of the feature files")
    videos: dict[str, ShotFeatures] = {}
    for path in paths:
        try:
            video = read_shot_features(path)
        except DatasetError as error:
            if left_out is None:
                raise
            left_out[_video_id(path)] = str(error)
            continue
        if videos.setdefault(video.video_id, video) is not video:
            raise fault(path, f"has the same video id as another file, {video.video_id}; rename one of them")
    return list(videos.values())


def _video_id(path: Path) -> str:
    return f"{path.resolve().parent.name}/{path.stem}"


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    # np.load reads a file that is not a zip as a pickle or a single array.
    if not zipfile.is_zipfile(path):
        raise fault(path, "not an .npz file, or truncated" if path.is_file() else "no such file")
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in (*ARRAYS, *(name for name in OPTIONAL_ARRAYS if name in archive.files)):
                if name not in archive.files:
                    raise fault(path, f"array '{name}' is missing")
                if archive.zip.getinfo(f"{name}.npy").file_size > _LARGEST_ARRAY:
                    raise fault(path, f"array '{name}' is larger than {_LARGEST_ARRAY // 2**30} GiB")
                arrays[name] = archive[name]
    except _UNREADABLE as error:
        raise fault(path, f"cannot be read as an .npz file: {first_line(error)}") from error
    return arrays
