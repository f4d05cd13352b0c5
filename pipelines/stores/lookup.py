"""Which feature stores belong to an index, and how its keyframes were made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import StoreError
from pipelines.stores.features import read_shot_checksums, shot_checksums
from pipelines.stores.index import Index
from pipelines.stores.keyframes import read_keyframes

JOINED = " + "
"""Between the encoder ids of features that come from several stores."""


def store_path(folder: Path, encoder: str) -> Path:
    """The file of an encoder's features in a folder of feature stores."""
    return folder / f"{encoder}.h5"


def find_features(index: Index, encoder: str, folder: Path, used: Sequence[int] | None = None) -> tuple[Path, ...]:
    """The feature stores of an index, for :func:`pipelines.stores.features.features_of`; empty where there is none for
    an encoder.

    ``encoder`` is an id, or several joined by `JOINED` (see `pipelines.models.index_encoders.encoder_for`). A store
    that the index names comes before ``<folder>/<encoder id>.h5``, which is taken only if it has all ``used`` videos
    (None: those of the index), encoded from the same shots and keyframes;
    :func:`pipelines.stages.encode.encode_shots` adds what is missing there.
    Raises StoreError for a damaged store, or where two stores have a video of the index.
    """
    names = encoder.split(JOINED)
    stores = tuple(store for name in names if (store := _store_of(index, name, folder, used)) is not None)
    if len(stores) < len(names):
        return ()
    if len(stores) > 1:
        wanted = set(index.video_ids)
        videos = [name for store in stores for name in wanted & read_shot_checksums(store).keys()]
        if len(videos) > len(set(videos)):
            named = ", ".join(map(str, stores))
            raise StoreError(f"{index.path}: has features of several encoders; name one with --features: {named}")
    return stores


def _store_of(index: Index, encoder: str, folder: Path, used: Sequence[int] | None) -> Path | None:
    named = index.features.get(encoder)
    if named is not None and named.exists():
        return named
    path = store_path(folder, encoder)
    return path if path.exists() and _has_all(path, index, used) else None


def _has_all(path: Path, index: Index, used: Sequence[int] | None) -> bool:
    """Whether a store has all used videos of an index and, if it says what it was made of, of the same keyframes."""
    stored, expected = read_shot_checksums(path), shot_checksums(index)
    says = any(checksum is not None for checksum in stored.values())
    names = index.video_ids if used is None else [index.video_ids[video] for video in used]
    return all(name in stored and (not says or stored[name] == expected[name]) for name in names)


def keyframe_facts(index: Index) -> dict[str, Any]:
    """How the keyframes of an index were made, for the header of a model that is trained on them: ``detector``,
    ``detector_threshold``, ``min_shot``, ``keyframes``, ``lines`` and ``quality`` of its keyframe stores, those in
    which all agree; empty for folders of JPEG files. Raises StoreError for a store that is missing or damaged."""
    stores = [store for store in index.keyframe_sources if store is not None]
    if not stores or any(store.suffix != ".h5" for store in stores):
        return {}
    made = [read_keyframes(store).settings for store in stores]
    known = ("detector", "detector_threshold", "min_shot", "keyframes", "lines", "quality")
    names = [name for name in known if name in made[0]]
    return {name: made[0][name] for name in names if all(other.get(name) == made[0][name] for other in made)}
