"""The features of an index that a model or an encoder stands for: stored ones, or else computed now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.errors import BasslError
from pipelines.models.encoder_loading import encoder_for
from pipelines.stores.features import IndexedFeatures, features_of, find_features, is_store
from pipelines.stores.index import Index


def features_for(
    index: Index,
    videos: Sequence[int],
    folder: Path,
    encoder: str | Path | None = None,
    *,
    asker: Path | None = None,
    compute: Callable[[], Path] | None = None,
) -> IndexedFeatures:
    """Return the features of some videos of an index: from ``folder`` if it is a feature store itself, else those of
    the encoder from the stores that the index names, from ``<folder>/<encoder id>/``, or from the store that
    ``compute`` makes of the keyframes. ``encoder`` and ``asker`` are as for `encoder_for`. Raises BasslError as
    `encoder_for` and `features_of`, or if there are none."""
    if is_store(folder):
        return features_of(index, [folder], videos)
    identity = encoder_for(index, encoder, asker=asker)
    stores = find_features(index, identity, folder, videos)
    if not stores:
        if compute is None or not index.keyframes:
            remedy = "run `bassl encode`" if index.keyframes else "run `bassl extract-keyframes` and `bassl encode`"
            raise BasslError(f"{index.path}: has no features of {identity}; {remedy}, or pass a store with `features`")
        stores = (compute(),)
    return features_of(index, stores, videos)
