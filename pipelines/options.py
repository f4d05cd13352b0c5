"""Command-line options described by a settings dataclass: its fields give names, types, defaults and help texts."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import operator
import os
import textwrap
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, SupportsFloat, SupportsIndex, TypeVar, overload

from pipelines.files import EMPTY_NAME
from pipelines.scenes import parse_time

S = TypeVar("S")
V = TypeVar("V")
NO_OPTION: Mapping[str, bool] = {"option": False}
"""Metadata of a field that is not an option, because other settings decide it."""


class Time(float):
    """Seconds, from a number or a text: seconds or a timecode, see :func:`pipelines.scenes.parse_time`."""

    def __new__(cls, value: float | str) -> Time:
        return super().__new__(cls, parse_time(value) if isinstance(value, str) else value)


Seconds = Annotated[float, Time]
"""The type of a field that is a time: seconds, or a text with seconds or a timecode."""


@dataclass(frozen=True)
class Settings:
    """Base of settings: frozen dataclasses whose fields are options, or other settings.

    Fields accept text for paths and times, NumPy's numbers, and lists or single values for tuples. Raises ValueError
    for a value that is not of the field's type, or that a Literal does not list.
    """

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self), include_extras=True)
        for field in fields(self):
            name, hint, value = field.name, hints[field.name], getattr(self, field.name)
            if is_dataclass(hint):
                if not isinstance(value, typing.cast("type", hint)):
                    raise ValueError(f"{name}: {value!r} is not {typing.cast('type', hint).__name__}")
                for option in field.metadata.get("without", ()):
                    if getattr(value, option) != getattr(field.default, option):
                        raise ValueError(f"{option} is not an option of {type(self).__name__}")
                continue
            if value is None and type(None) in typing.get_args(hint):
                continue
            kind, many, choices = kind_of(hint)
            if choices and value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
            if many:
                values = value if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
                object.__setattr__(self, name, tuple(_of_kind(kind, item, name) for item in values))
            else:
                object.__setattr__(self, name, _of_kind(kind, value, name))


def _of_kind(kind: type, value: Any, name: str) -> Any:
    """The value of a field of this type and name. Raises ValueError for a value of another type."""
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
    """Raises ValueError, one line, for a field below ``least``, infinite or NaN; None is accepted."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not least <= value < math.inf:
            raise ValueError(f"{name} must be at least {least:g}, not {value}")


def rare(default: V) -> V:
    """A field with this default that only ``--help-all`` shows."""
    return dataclasses.field(default=default, metadata={"rare": True})


def nested(default: V, *, without: Collection[str] = (), defaults: Mapping[str, str] = {}, rare: bool = False) -> V:
    """A field that contains settings, with this default: their options are options of the outer class.

    Args:
        default: its values are the defaults of the options.
        without: options that the outer class does not have; it refuses other values of them.
        defaults: by option, the default in ``--help``, instead of the one in the docstring.
        rare: whether only ``--help-all`` shows the options.
    """
    return dataclasses.field(default=default, metadata={"without": without, "defaults": defaults, "rare": rare})


@dataclass(frozen=True)
class Option:
    """One option."""

    name: str  # of the field
    group: str  # name of the field of the outer dataclass that has this one; empty for fields of the outer one
    # bool, int, float, str, Path or Time: the type of the value, or of each value of a tuple; the first type of a union
    kind: type
    many: bool  # whether the value is a tuple, on the command line with commas
    default: Any  # None if there is none
    help: str  # the first paragraph of the field's docstring
    choices: tuple[str, ...]  # the values of a Literal
    rare: bool = False  # whether only ``--help-all`` shows it

    @property
    def flag(self) -> str:
        """The option as written on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def shown(self) -> Any:
        """The default as written on the command line."""
        return ",".join(map(str, self.default)) if self.many and self.default is not None else self.default

    def read(self, text: Any) -> Any:
        """The value of a text; anything but text is a value already. Raises ValueError for text of another type."""
        if not isinstance(text, str):
            return tuple(text) if self.many else text
        try:
            if self.many:
                return tuple(self.kind(word.strip()) for word in text.split(",") if word.strip())
            return self.kind(text)
        except ValueError as error:
            wrong = error if self.kind is Time else f"is not {self.kind.__name__}"
            raise ValueError(f"`{self.name}`: {text!r} {wrong}") from error


def options_of(settings: Any, group: str = "", default: Any = None, nesting: Mapping[str, Any] = {}) -> list[Option]:
    """The options of a settings dataclass and of those nested in it, in order; the other arguments are name, default,
    and metadata of the nesting field. Raises TypeError for a field of a type that no option can have."""
    hints, texts = typing.get_type_hints(settings, include_extras=True), field_texts(settings)
    options: list[Option] = []
    for field in fields(settings):
        name, hint = field.name, hints[field.name]
        if is_dataclass(hint):
            options += options_of(hint, name, field.default, field.metadata)
        elif field.metadata.get("option", True) and name not in nesting.get("without", ()):
            value = getattr(default, name) if group else None if field.default is MISSING else field.default
            text = texts.get(name, "")
            if name in nesting.get("defaults", {}):
                text = f"{text.partition('Default: ')[0].strip()} Default: {nesting['defaults'][name]}."
            is_rare = nesting.get("rare", False) or field.metadata.get("rare", False)
            kind, many, choices = kind_of(hint)
            options.append(Option(name, group, kind, many, value, text, choices, is_rare))
    return options


@overload
def with_options(settings: type[S], /, **options: Any) -> S: ...
@overload
def with_options(settings: S, /, **options: Any) -> S: ...
def with_options(settings: Any, /, **options: Any) -> Any:
    """Settings with other values of options or fields, each option by its own name wherever it is nested.
    ``settings`` are changed in a copy; a class stands for its defaults. Raises TypeError, one line, for a name that is
    neither, and ValueError for a value that the settings refuse."""
    kind = settings if isinstance(settings, type) else type(settings)
    groups = {option.name: option.group for option in options_of(kind)}
    defaults: dict[str, Any] = {field.name: field.default for field in fields(kind)}
    changes: dict[str, Any] = {}
    nested_changes: dict[str, dict[str, Any]] = {}
    for name, value in options.items():
        if name not in groups and name not in defaults:
            raise TypeError(f"{kind.__name__} has no option {name!r}")
        if group := groups.get(name):
            nested_changes.setdefault(group, {})[name] = value
        else:
            changes[name] = value
    for group, values in nested_changes.items():
        changes[group] = replace(defaults[group] if kind is settings else getattr(settings, group), **values)
    return kind(**changes) if kind is settings else replace(settings, **changes)


def settings_from(settings: type[S], texts: Mapping[str, Any]) -> S:
    """Settings with the values of options, by name, as texts or values; defaults elsewhere. Raises ValueError for a
    value that does not fit."""
    values = {option.name: option.read(texts[option.name]) for option in options_of(settings) if option.name in texts}
    return with_options(settings, **values)


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
        raise TypeError(f"{hint} cannot be an option")
    return hint, False, ()


@cache
def field_texts(settings: Any) -> dict[str, str]:
    """The first paragraph of the text under each field, on one line; fields of a base class too."""
    texts: dict[str, str] = {}
    for kind in reversed(settings.__mro__[:-1]):
        body = typing.cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]).body
        for name, text in pairwise(body):
            if isinstance(name, ast.AnnAssign) and isinstance(name.target, ast.Name) and isinstance(text, ast.Expr):
                first = inspect.cleandoc(str(ast.literal_eval(text.value))).partition("\n\n")[0]
                texts[name.target.id] = " ".join(first.replace("`", "").split())
    return texts
