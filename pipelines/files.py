"""Files in the making: they stand beside their place under a name of their own until they are whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def new_partial(path: Path) -> Path:
    """An empty file beside ``path``, to be renamed to it.

    Raises:
        OSError: where none can be made.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    os.close(handle)
    return Path(name)


def remove_partials(path: Path) -> None:
    """Remove what killed runs left of ``path``."""
    for partial in path.parent.glob(f".{path.name}.????????.partial"):
        partial.unlink(missing_ok=True)
