"""Reads the JPEG keyframes of rows of an index, from keyframe stores or from MovieNet's folders of JPEG files."""

from __future__ import annotations

import os
import zlib
from collections import OrderedDict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.movienet import keyframe_name, read_jpeg
from pipelines.errors import StoreError
from pipelines.files import os_errors
from pipelines.stores.index import Index, read_index
from pipelines.video.images import from_jpeg

# Limit on stores held open by one reader: MovieNet has 1,100 videos, and some systems allow a process 256 open files.
_OPEN_FILES = 100
_REMEDY = "run `bassl build-index` with `overwrite=True`, or if it is damaged, `bassl extract-keyframes` on its video"


class KeyframeReader:
    """Reads JPEGs of rows of an index, in one thread. Consecutive rows of one store cost one read, without HDF5. Files
    are opened when first needed."""

    def __init__(self, index: Path | Index) -> None:
        self.index = index if isinstance(index, Index) else read_index(index)
        self._files: OrderedDict[int, int] = OrderedDict()

    def __del__(self) -> None:
        for handle in getattr(self, "_files", {}).values():
            os.close(handle)

    def read(self, rows: NDArray[np.int64], images: NDArray[np.int64]) -> list[list[bytes]]:
        """Read the JPEGs of a window, S lists of n: `images` (S, n) of the N_k keyframes of `rows` (S,) of one
        video, which are in ascending order (a clipped window repeats its first or last row). Raises StoreError if
        the video has no keyframes or its store is missing or damaged, DatasetError for a file of a folder that is
        missing or not a JPEG."""
        index = self.index
        video = int(index.video_of(rows[:1])[0])
        path = index.keyframe_sources[video]
        if path is None:
            raise StoreError(f"{index.path}: {index.video_ids[video]} has no keyframes")
        if path.suffix != ".h5":
            first = index.span(video).start
            return [
                [read_jpeg(path / keyframe_name(row - first, k)) for k in numbers]
                for row, numbers in zip(rows.tolist(), images.tolist(), strict=True)
            ]
        start, end = int(index.jpeg[rows[0], 0]), int(index.jpeg[rows[-1], -1])
        content = self._pread(video, path, start, end - start)
        result = []
        for row, numbers in zip(rows.tolist(), images.tolist(), strict=True):
            bounds = (index.jpeg[row] - start).tolist()
            jpegs = [content[bounds[k] : bounds[k + 1]] for k in numbers]
            if any(zlib.crc32(jpeg) != index.jpeg_crc32[row, k] for jpeg, k in zip(jpegs, numbers, strict=True)):
                raise StoreError(f"{self.shot(row)} was made again after the index, or is damaged; {_REMEDY}")
            result.append(jpegs)
        return result

    def decoded(self, row: int, jpeg: bytes) -> NDArray[np.uint8]:
        """Decode the JPEG of a row's keyframe to (H, W, 3) uint8 RGB. Raises StoreError, which names the shot, if it
        cannot be decoded."""
        try:
            return from_jpeg(jpeg)
        except ValueError as error:
            raise StoreError(f"{self.shot(row)} has a keyframe that is {error}") from error

    def shot(self, row: int) -> str:
        """Return the name of a row's shot for messages: its file and its number."""
        video = int(self.index.video_of(np.array([row]))[0])
        path = self.index.keyframe_sources[video] or self.index.video_ids[video]
        return f"{path}: shot {row - self.index.span(video).start}"

    def _pread(self, video: int, path: Path, start: int, size: int) -> bytes:
        with os_errors(path, kind=StoreError):
            if video not in self._files:
                if len(self._files) >= _OPEN_FILES:
                    os.close(self._files.popitem(last=False)[1])
                self._files[video] = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            self._files.move_to_end(video)
            handle = self._files[video]
            # The size is checked first, so that no memory is allocated for bytes that are missing.
            if start + size > os.fstat(handle).st_size:
                content = b""
            else:
                os.lseek(handle, start, os.SEEK_SET)
                content = os.read(handle, size)
        if len(content) < size:
            raise StoreError(f"{path}: is cut short, or was made again after the index; {_REMEDY}")
        return content
