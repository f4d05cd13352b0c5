"""Windows of shots for training: the key-frames of 2K+1 shots around a centre, from stores or folders of JPEG files."""

from __future__ import annotations

import os
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from pipelines.datasets.movienet import KeyframeFolder, read_jpeg
from pipelines.errors import StoreError
from pipelines.models.encoders import resize_to_square
from pipelines.stores.index import Index, read_index, window_rows

# Stores that a reader holds open; MovieNet has 1,100, and some systems allow a process 256 files.
_OPEN_FILES = 100
_REMEDY = "run `bassl build-index --overwrite`"


class KeyframeReader:
    """Reads JPEGs of rows of an index: those of a run of rows of one store with one ``pread``, without HDF5.

    It opens files when they are first needed. Processes may share them after a fork, for ``pread`` moves no position;
    to a spawned process it is pickled as the path of its index.
    """

    def __init__(self, index: Path | Index) -> None:
        self.index = index if isinstance(index, Index) else read_index(index)
        self._files: OrderedDict[int, int] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {"index": self.index.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["index"])  # type: ignore[misc]

    def __del__(self) -> None:
        for handle in getattr(self, "_files", {}).values():
            os.close(handle)

    def read(self, rows: NDArray[np.int64], images: NDArray[np.int64]) -> list[list[bytes]]:
        """The JPEGs of a window.

        Args:
            rows: (S,) rows of one video, not falling (a clipped window repeats its first or last).
            images: (S, n) which of the N_k key-frames of each.

        Returns:
            S lists of n JPEGs.

        Raises:
            StoreError: one line, when the video has no key-frames or its store is missing or damaged.
            DatasetError: one line, when a file of a folder is missing or not a whole JPEG.
        """
        index = self.index
        video = int(index.video_of(rows[:1])[0])
        place = index.pictures[video]
        if place is None:
            raise StoreError(f"{index.path}: {index.video_ids[video]} has no key-frames")
        if place.suffix != ".h5":
            span = index.span(video)
            folder = KeyframeFolder(place, span.stop - span.start, index.keyframes)
            return [
                [read_jpeg(folder[int(row) - span.start][int(k)]) for k in chosen]
                for row, chosen in zip(rows, images, strict=True)
            ]
        start, end = int(index.jpeg[rows[0], 0]), int(index.jpeg[rows[-1], -1])
        stretch = self._pread(video, place, start, end - start)
        pictures = []
        for row, chosen in zip(rows.tolist(), images.tolist(), strict=True):
            bounds = (index.jpeg[row] - start).tolist()
            jpegs = [stretch[bounds[k] : bounds[k + 1]] for k in chosen]
            if any(zlib.crc32(jpeg) != index.jpeg_crc32[row, k] for jpeg, k in zip(jpegs, chosen, strict=True)):
                raise StoreError(f"{self.shot(row)} is damaged, or was made again after the index; {_REMEDY}")
            pictures.append(jpegs)
        return pictures

    def decoded(self, row: int, jpeg: bytes) -> NDArray[np.uint8]:
        """A key-frame of a row, as it was read, as (H, W, 3) uint8 RGB.

        Raises:
            StoreError: one line, which names the shot, for what is not a JPEG that can be decoded.
        """
        try:
            return decode_whole(jpeg)
        except ValueError as error:
            raise StoreError(f"{self.shot(row)} has a key-frame that is {error}") from error

    def shot(self, row: int) -> str:
        """What to call the shot of a row in a message."""
        video = int(self.index.video_of(np.array([row]))[0])
        place = self.index.pictures[video] or self.index.video_ids[video]
        return f"{place}: shot {row - self.index.span(video).start}"

    def _pread(self, video: int, place: Path, start: int, size: int) -> bytes:
        try:
            if video not in self._files:
                if len(self._files) >= _OPEN_FILES:
                    os.close(self._files.popitem(last=False)[1])
                self._files[video] = os.open(place, os.O_RDONLY)
            self._files.move_to_end(video)
            handle = self._files[video]
            # Asked first, lest memory be taken for bytes that are not there.
            stretch = os.pread(handle, size, start) if start + size <= os.fstat(handle).st_size else b""
        except OSError as error:
            raise StoreError(f"{place}: cannot be read ({(error.strerror or str(error)).lower()})") from error
        if len(stretch) < size:
            raise StoreError(f"{place}: is cut short, or was made again after the index; {_REMEDY}")
        return stretch


def decode_whole(jpeg: bytes) -> NDArray[np.uint8]:
    """A JPEG as (H, W, 3) uint8 RGB.

    Raises:
        ValueError: when it is not a JPEG that can be decoded.
    """
    try:
        picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR_RGB)
    except cv2.error:  # such as a size that no picture has
        picture = None
    if picture is None:
        raise ValueError("not a JPEG that can be decoded")
    return np.asarray(picture, np.uint8)


class KeyframeWindows(Dataset[dict[str, Any]]):
    """Windows of an index as training examples.

    An example is a dict: ``row`` (the centre), ``rows`` (S,), ``label`` (0 or 1), and either ``jpegs`` (S lists of n
    byte strings, with ``size=None``: for decoding on a GPU) or ``pictures`` (S, n, 3, size, size) uint8.

    Args:
        index: an index or its path.
        rows: (N,) centre shots; None takes all.
        neighbours: K.
        edge: what happens at a film's edge, see :func:`pipelines.stores.index.window_rows`.
        keyframes: ``"random"`` for one of the N_k drawn anew for each shot (the paper's pre-training), or ``"all"``.
        size: side of the decoded pictures, or None for JPEGs.
        seed: of the draw; with it, the row and ``epoch`` (an attribute to be set before each) it is determined.

    Raises:
        StoreError: one line, when the index is damaged or has no key-frames of one of the rows.
        IndexError: for rows that are not in the index.
    """

    def __init__(
        self,
        index: Path | Index,
        rows: NDArray[np.int64] | None = None,
        neighbours: int = 8,
        edge: Literal["shift", "clip"] = "shift",
        keyframes: Literal["random", "all"] = "random",
        size: int | None = 224,
        seed: int = 0,
    ) -> None:
        self.reader = KeyframeReader(index)
        self.rows = self.reader.index.rows_of() if rows is None else np.asarray(rows, np.int64)
        self.neighbours = neighbours
        self.edge: Literal["shift", "clip"] = edge
        self.keyframes = keyframes
        self.size = size
        self.seed = seed
        # In shared memory: the workers of a loader may live on from epoch to epoch.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        self._check()

    @property
    def epoch(self) -> int:
        """The epoch that key-frames are drawn for."""
        return int(self._epoch)

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> dict[str, Any]:
        return self.__getitems__([position])[0]

    def __getitems__(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """A batch at once, as PyTorch's loader asks for it: the rows of all windows are computed together."""
        index = self.reader.index
        centres = self.rows[np.asarray(positions, np.int64)]
        windows = window_rows(index.first_row, centres, self.neighbours, self.edge)
        labels = index.targets(centres)
        examples: list[dict[str, Any]] = []
        for centre, rows, label in zip(centres.tolist(), windows, labels.tolist(), strict=True):
            jpegs = self.reader.read(rows, self._images(centre, len(rows)))
            example: dict[str, Any] = {"row": centre, "rows": torch.from_numpy(rows), "label": label}
            if self.size is None:
                example["jpegs"] = jpegs
            else:
                example["pictures"] = self._decoded(rows, jpegs, self.size)
            examples.append(example)
        return examples

    def _check(self) -> None:
        index = self.reader.index
        if len(self.rows) and not 0 <= self.rows.min() <= self.rows.max() < len(index.label):
            raise IndexError(f"rows must lie in 0 to {len(index.label) - 1}")
        for video in np.unique(index.video_of(self.rows)).tolist():
            if index.pictures[video] is None or index.keyframes == 0:
                raise StoreError(f"{index.path}: has no key-frames of {index.video_ids[video]}; leave its rows out")

    def _images(self, centre: int, shots: int) -> NDArray[np.int64]:
        images = self.reader.index.keyframes
        if self.keyframes == "all":
            return np.tile(np.arange(images), (shots, 1))
        rng = np.random.default_rng((self.seed, self.epoch, centre))
        return rng.integers(0, images, (shots, 1))

    def _decoded(self, rows: NDArray[np.int64], jpegs: list[list[bytes]], size: int) -> Tensor:
        pictures = np.empty((len(jpegs), len(jpegs[0]), size, size, 3), np.uint8)
        for shot, (row, shots_jpegs) in enumerate(zip(rows.tolist(), jpegs, strict=True)):
            for k, jpeg in enumerate(shots_jpegs):
                pictures[shot, k] = resize_to_square(self.reader.decoded(row, jpeg), size)
        # Channels last in memory, as a convolution likes it, and channels first in shape.
        return torch.from_numpy(pictures).permute(0, 1, 4, 2, 3)
