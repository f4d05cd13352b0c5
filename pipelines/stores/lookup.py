"""Which feature stores belong to an index, and how its keyframes were made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import StoreError
from pipelines.stores.features import feature_file, is_current, shots_checksum
from pipelines.stores.index import Index
from pipelines.stores.keyframes import read_keyframes

JOINED = " + "
"""Between the encoder ids of features that come from several stores."""


def is_store(path: Path) -> bool:
    """Whether a folder is a feature store, not a folder of stores or a run."""
    return next(path.glob("*.h5"), None) is not None


def store_path(folder: Path, encoder: str) -> Path:
    """The store of an encoder in a folder of feature stores."""
    return folder / encoder


def find_features(index: Index, encoder: str, folder: Path, used: Sequence[int] | None = None) -> tuple[Path, ...]:
    """The feature stores of an index, for :func:`pipelines.stores.features.features_of`; empty if there is none for an
    encoder.

    ``encoder`` is an id, or several joined by `JOINED` (see `pipelines.models.encoders.encoder_for`). A store
    that the index names comes before ``<folder>/<encoder id>/``, which is taken only if it has all ``used`` videos
    (None: all of the index), encoded from the same shots and keyframes;
    :func:`pipelines.stages.encode.encode_shots` adds what is missing there.
    Raises StoreError for a damaged file, and if two stores have the same video of the index.
    """
    names = encoder.split(JOINED)
    stores = tuple(store for name in names if (store := _store_of(index, name, folder, used)) is not None)
    if len(stores) < len(names):
        return ()
    if any(len(having(stores, name)) > 1 for name in index.video_ids):
        named = ", ".join(map(str, stores))
        raise StoreError(f"{index.path}: has features of several encoders; name one with --features: {named}")
    return stores


def having(stores: Sequence[Path], video_id: str) -> list[Path]:
    """Those of some feature stores that have a video."""
    return [store for store in stores if feature_file(store, video_id).exists()]


def _store_of(index: Index, encoder: str, folder: Path, used: Sequence[int] | None) -> Path | None:
    named = index.features.get(encoder)
    if named is not None and named.exists():
        return named
    store = store_path(folder, encoder)
    for video in range(len(index.video_ids)) if used is None else used:
        if not is_current(feature_file(store, index.video_ids[video]), encoder, shots_checksum(index, video)):
            return None
    return store


def keyframe_facts(index: Index) -> dict[str, Any]:
    """How the keyframes of an index were made, for the header of a model that is trained on them: ``detector``,
    ``detector_threshold``, ``min_shot``, ``keyframes``, ``lines`` and ``quality``, if all its keyframe stores agree;
    empty for folders of JPEG files. Raises StoreError for a store that is missing or damaged."""
    stores = [store for store in index.keyframe_sources if store is not None]
    if not stores or any(store.suffix != ".h5" for store in stores):
        return {}
    settings = [read_keyframes(store).settings for store in stores]
    facts = ("detector", "detector_threshold", "min_shot", "keyframes", "lines", "quality")
    names = [name for name in facts if name in settings[0]]
    return {
        name: settings[0][name] for name in names if all(other.get(name) == settings[0][name] for other in settings)
    }
