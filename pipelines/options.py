"""Command-line options described by a settings dataclass: its fields give names, types, defaults and help texts."""

from __future__ import annotations

import ast
import inspect
import operator
import os
import textwrap
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, SupportsFloat, SupportsIndex, TypeVar

from pipelines.files import EMPTY_NAME
from pipelines.scenes import parse_time

S = TypeVar("S")
V = TypeVar("V")
NO_OPTION: Mapping[str, bool] = {"option": False}
"""Metadata of a field that is not an option, because other settings decide it."""
RARE: Mapping[str, bool] = {"rare": True}
"""Metadata of a field that is a rarely used option, or a dataclass of such options: only ``--help-all`` shows them."""


class Time(float):
    """Seconds, from a number or a text: seconds or a timecode, see :func:`pipelines.scenes.parse_time`."""

    def __new__(cls, value: float | str) -> Time:
        return super().__new__(cls, parse_time(value) if isinstance(value, str) else value)


Seconds = Annotated[float, Time]
"""The type of a field that is a time, which may be given as seconds or as a timecode."""


@dataclass(frozen=True)
class Option:
    """One option."""

    name: str  # of the field
    group: str  # name of the field of the outer dataclass that holds this one; empty for fields of the outer one
    # bool, int, float, str, Path or Time: the type of the value, or of each value of a tuple; the first type of a union
    kind: type
    many: bool  # whether the value is a tuple, given with commas
    default: Any  # None where there is none
    help: str  # the first paragraph of the field's docstring
    choices: tuple[str, ...]  # the values of a Literal
    rare: bool = False  # whether only ``--help-all`` shows it

    @property
    def flag(self) -> str:
        """The option as written on the command line."""
        return "--" + self.name.replace("_", "-")

    def read(self, text: Any) -> Any:
        """The value of a text; anything but text is a value already. Raises ValueError for text of another type."""
        if not isinstance(text, str):
            return tuple(text) if self.many else text
        try:
            if self.many:
                return tuple(map(self.kind, words(text)))
            return self.kind(text)
        except ValueError as error:
            wrong = error if self.kind is Time else f"is not {self.kind.__name__}"
            raise ValueError(f"{self.flag}: {text!r} {wrong}") from error

    @property
    def shown(self) -> Any:
        """The default as written on the command line."""
        return ",".join(map(str, self.default)) if self.many and self.default is not None else self.default


def rare(default: V) -> V:
    """A field with this default and the metadata `RARE`."""
    return field(default=default, metadata=RARE)


def options_of(settings: Any, group: str = "", rare: bool = False) -> tuple[Option, ...]:
    """The options of a settings dataclass and of those that it holds, in order. Raises TypeError for a field of a type
    that no option can have."""
    hints, texts = typing.get_type_hints(settings, include_extras=True), field_texts(settings)
    options: list[Option] = []
    for one in fields(settings):
        hint, is_rare = hints[one.name], rare or one.metadata.get("rare", False)
        if is_dataclass(hint):
            options += options_of(hint, one.name, is_rare)
        elif one.metadata.get("option", True):
            default = one.default if one.default is not MISSING else None
            kind, many, choices = kind_of(hint)
            options.append(Option(one.name, group, kind, many, default, texts.get(one.name, ""), choices, is_rare))
    return tuple(options)


def settings_from(settings: type[S], given: Mapping[str, Any]) -> S:
    """Settings with the given values of options, by name; defaults elsewhere. Raises ValueError for a value that does
    not fit."""
    hints = typing.get_type_hints(settings)
    values: dict[str, dict[str, Any]] = {}
    for option in options_of(settings):
        if option.name in given:
            values.setdefault(option.group, {})[option.name] = option.read(given[option.name])
    inner = {group: hints[group](**chosen) for group, chosen in values.items() if group}
    return settings(**values.get("", {}), **inner)


def values_of(settings: Any) -> dict[str, Any]:
    """The values of all options as plain JSON values, by name: what `settings_from` makes the same settings of."""
    values = {}
    for option in options_of(type(settings)):
        holder = getattr(settings, option.group) if option.group else settings
        value = getattr(holder, option.name)
        if value is not None:
            values[option.name] = str(value) if isinstance(value, Path) else value
    return values


def accept_text(settings: Any) -> None:
    """Let the fields of a frozen dataclass that are paths or times be given as text, numbers as those of NumPy, and
    tuples as lists or as one value. For ``__post_init__``: replaces the values of such fields. Raises ValueError for a
    value that is not of the field's type, or that a Literal does not list."""
    for name, hint in typing.get_type_hints(type(settings), include_extras=True).items():
        value = getattr(settings, name)
        if is_dataclass(hint) or (value is None and type(None) in typing.get_args(hint)):
            continue
        kind, many, choices = kind_of(hint)
        if choices and value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        if many:
            each = value if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
            object.__setattr__(settings, name, tuple(_of_kind(kind, one, name) for one in each))
        else:
            object.__setattr__(settings, name, _of_kind(kind, value, name))


def _of_kind(kind: type, value: Any, name: str) -> Any:
    """A value as that of a field of this type and name. Raises ValueError for one of another type."""
    if kind is Time and isinstance(value, str):
        try:
            return float(Time(value))
        except ValueError as error:
            raise ValueError(f"{name}: {value!r} {error}") from error
    if kind is Path and value == "":
        raise ValueError(f"{name}: {EMPTY_NAME}")
    if kind is Path and isinstance(value, str | os.PathLike):
        return Path(value)
    if kind is bool and value in (False, True):
        return bool(value)
    if kind is int and isinstance(value, SupportsIndex):
        return operator.index(value)
    if kind in (float, Time) and isinstance(value, SupportsFloat):
        return value if isinstance(value, int) else float(value)
    if kind is str or isinstance(value, kind):
        return value
    raise ValueError(f"{name}: {value!r} is not {'float' if kind is Time else kind.__name__}")


def check_at_least(settings: Any, least: float, *names: str) -> None:
    """Raises ValueError, one line, for a field below ``least`` or NaN; None is a field that is not given."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not value >= least:
            raise ValueError(f"{name} must be at least {least:g}, not {value}")


def words(text: str | None) -> tuple[str, ...]:
    """The parts of a comma-separated text, without empty ones; none for None."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def kind_of(hint: Any) -> tuple[type, bool, tuple[str, ...]]:
    """The type of an option's value, whether it has several, and what a Literal lists. Raises TypeError."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return kind_of(next(each for each in inner if each is not type(None)))
    if origin is Annotated:
        return inner[1], False, ()
    if origin in (tuple, list):
        return kind_of(inner[0])[0], True, ()
    if origin is typing.Literal:
        return str, False, inner
    if hint not in (bool, int, float, str, Path):
        raise TypeError(f"no option can be made of {hint}")
    return hint, False, ()


@cache
def field_texts(settings: Any) -> dict[str, str]:
    """The first paragraph of the text under each field, on one line."""
    body = typing.cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(settings))).body[0]).body
    texts = {}
    for name, text in pairwise(body):
        if isinstance(name, ast.AnnAssign) and isinstance(name.target, ast.Name) and isinstance(text, ast.Expr):
            first = inspect.cleandoc(str(ast.literal_eval(text.value))).partition("\n\n")[0]
            texts[name.target.id] = " ".join(first.replace("`", "").split())
    return texts
