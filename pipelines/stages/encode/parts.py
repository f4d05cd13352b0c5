"""A feature store that is made in parts: one small store per video in a folder beside it, joined at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.files import check_writable, locked, remove_partials
from pipelines.stores.features import FeatureStore, open_features, shot_checksums, write_features
from pipelines.stores.index import Index


class StoreInParts:
    """The feature store at ``path`` of some ``videos`` of an index, and the parts that are not in it yet. ``encoder``
    is the id of their encoder."""

    def __init__(self, path: Path, encoder: str, index: Index, videos: Sequence[int]) -> None:
        self.path, self._encoder, self._index, self._videos = path, encoder, index, videos
        self._folder = path.with_name(f".{path.name}.parts")
        checksums = shot_checksums(index)
        self._checksums = {name: checksums[name] for name in (index.video_ids[video] for video in videos)}

    def begin(self, overwrite: bool) -> list[int]:
        """Remove what cannot be used; return the videos that have no features yet. Raises BasslError where the folder
        cannot be written, or the store was not made here."""
        check_writable(self.path)
        remove_partials(self.path)
        try:
            done = self._open()
        except StoreError:
            if not overwrite:
                raise
            self.path.unlink()
            done = None
        missing = []
        for video in self._videos:
            name = self._index.video_ids[video]
            part = self._part(name)
            remove_partials(part)
            if overwrite or not self._fits(part, name):
                part.unlink(missing_ok=True)
                # Features of a video whose shots have changed since are computed again.
                if overwrite or done is None or done.shots.get(name) != self._checksums[name]:
                    missing.append(video)
        if not missing and any(self._part(name).exists() for name in self._checksums):  # killed before it joined them
            self.join()
        self._remove_folder()
        return missing

    def keep(self, video: int, features: NDArray[np.float32], colour: NDArray[np.float32]) -> None:
        """Write the features (N, D_e) and colour (N, 180) of a video as a part."""
        name = self._index.video_ids[video]
        write_features(self._part(name), self._encoder, {name: features}, {name: self._checksums[name]}, {name: colour})

    def join(self) -> None:
        """Write the store from what is in it, videos of other indices included, and its parts."""
        with locked(self.path.parent, wait=True):  # another run may join its own videos
            done = self._open()
            parts = {name: part for name in self._checksums if (part := self._part(name)).exists()}
            colour = {name: one for name, one in done.colour.items() if name not in parts} if done else {}
            for part in parts.values():
                colour |= open_features(part).colour
            shots = {**(done.shots if done else {}), **{name: self._checksums[name] for name in parts}}
            if shots:
                write_features(self.path, self._encoder, _Features(done, parts), shots, colour)
            for part in parts.values():
                remove_partials(part)  # of a worker of a cluster that died
                part.unlink(missing_ok=True)
            self._remove_folder()

    def _part(self, name: str) -> Path:
        # A video's id may have characters, or a length, that a file's name may not.
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.h5"

    def _open(self) -> FeatureStore | None:
        """The store, None where there is none yet."""
        if not self.path.exists():
            return None
        store = open_features(self.path)
        if store.encoder != self._encoder or store.videos.keys() != store.shots.keys():
            what = f"is a store of {store.encoder} that was not made here"
            raise StoreError(f"{self.path}: {what}; delete it, and it is made again")
        return store

    def _fits(self, part: Path, name: str) -> bool:
        """Whether a part is whole and of the shots in the index."""
        try:
            found = open_features(part)
        except StoreError:  # missing, or damaged by a full disk or a power cut
            return False
        return found.encoder == self._encoder and dict(found.shots) == {name: self._checksums[name]}

    def _remove_folder(self) -> None:
        with suppress(OSError):  # not empty: a run on another index may have parts there
            self._folder.rmdir()


class _Features(Mapping[str, "NDArray[np.floating]"]):
    """The features of each video in a store or in a part, read when they are requested."""

    def __init__(self, store: FeatureStore | None, parts: Mapping[str, Path]) -> None:
        self._stored = store.videos if store is not None else {}
        self._parts = parts

    def __getitem__(self, name: str) -> NDArray[np.floating]:
        return open_features(self._parts[name]).videos[name] if name in self._parts else self._stored[name]

    def __iter__(self) -> Iterator[str]:
        return iter({*self._parts, *self._stored})

    def __len__(self) -> int:
        return len({*self._parts, *self._stored})
