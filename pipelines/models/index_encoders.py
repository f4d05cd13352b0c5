"""Which encoder's features of an index are read, where a model, the settings or the index name one."""

from __future__ import annotations

from pipelines.models.encoder_options import DEFAULT_ENCODER, is_published
from pipelines.models.encoders import KEYFRAMES, Preparation, load_encoder
from pipelines.models.opening import OpenedModel
from pipelines.stores.index import Index
from pipelines.stores.lookup import JOINED


def encoder_for(
    index: Index, opened: OpenedModel | None = None, named: str | None = None, how: Preparation | None = None
) -> str:
    """The id of the encoder whose features of an index are read, for `pipelines.stores.lookup.find_features`.

    It is the encoder that a model has, else the one that is named, else those of the features that the index names,
    else the default one.

    Args:
        index: of the shots; their number of keyframes is part of an id.
        opened: a model.
        named: name or id, such as that of the encoder that a model learned from.
        how: as for :func:`load_encoder`.

    Raises:
        BasslError: one line, where a named encoder cannot be had.
    """
    keyframes = index.keyframes or KEYFRAMES
    if opened is not None and opened.has_weights and opened.weights.encoder:
        return load_encoder(opened.path, "cpu", keyframes, how).id
    if named is None and index.features:
        return JOINED.join(index.features)
    named = named or DEFAULT_ENCODER
    known_by_name = named == DEFAULT_ENCODER or is_published(named)
    return load_encoder(named, "cpu", keyframes, how).id if known_by_name else named
