"""The encoder whose features are used for an index: named by a model, the settings or the index."""

from __future__ import annotations

from pathlib import Path

from pipelines.models.encoder_options import DEFAULT_ENCODER, is_published
from pipelines.models.encoders import load_encoder
from pipelines.models.shot_encoder import KEYFRAMES, Preparation
from pipelines.stores.index import Index
from pipelines.stores.lookup import JOINED


def encoder_for(index: Index, named: str | Path | None = None, how: Preparation | None = None) -> str:
    """The id of the encoder whose features are used for an index, for `pipelines.stores.lookup.find_features`.

    ``named``: a model that has an encoder, or the name or id of an encoder. Default: the encoders of the features that
    the index names, or else the default encoder. The index's number of keyframes is part of an id; ``how`` is as for
    :func:`load_encoder`. Raises BasslError if a named encoder cannot be loaded.
    """
    if named is None and index.features:
        return JOINED.join(index.features)
    named = named or DEFAULT_ENCODER
    if isinstance(named, str) and named != DEFAULT_ENCODER and not is_published(named):
        return named
    return load_encoder(named, "cpu", index.keyframes or KEYFRAMES, how).id
