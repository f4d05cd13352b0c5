"""Command-line options described by a settings dataclass: its fields give names, types, defaults and help texts."""

from __future__ import annotations

import dataclasses
import math
import operator
import os
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, SupportsFloat, SupportsIndex, TypeVar, overload

from annotated_doc import Doc

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
KIND_NAMES: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    Time: "seconds or a timecode",
}
"""By the type of an option's value, what messages call it."""


@dataclass(frozen=True)
class Settings:
    """Base of settings: frozen dataclasses whose fields are options, or other settings.

    Fields accept text for paths and times, NumPy's numbers, and lists or single values for tuples. Raises ValueError
    for a value that is not of the field's type, or that a Literal does not list.
    """

    def __post_init__(self) -> None:
        kinds: Any = type(self)
        for field in fields(self):
            name, (hint, _), value = field.name, _field_types(kinds)[field.name], getattr(self, field.name)
            if is_dataclass(hint):
                if not isinstance(value, typing.cast("type", hint)):
                    raise ValueError(f"{name}: {value!r} is not {typing.cast('type', hint).__name__}")
                for option in field.metadata.get("without", ()):
                    if getattr(value, option) != getattr(field.default, option):
                        raise ValueError(f"{option} is not an option of {type(self).__name__}")
                continue
            if value is None and type(None) in typing.get_args(hint):
                continue
            kind, many, choices = parse_kind(hint)
            if choices and value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
            if many:
                values = value if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
                object.__setattr__(self, name, tuple(_coerce(kind, item, name) for item in values))
            else:
                object.__setattr__(self, name, _coerce(kind, value, name))


def _coerce(kind: type, value: Any, name: str) -> Any:
    """Return the value as this type. Raises ValueError, with the name of the field, for a value of another type."""
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
    raise ValueError(f"{name} must be {KIND_NAMES[kind]}, not {'the text ' * isinstance(value, str)}{value!r}")


def check_at_least(settings: Any, least: float, *names: str) -> None:
    """Raise ValueError, one line, for a field below ``least``, infinite or NaN; None is accepted."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not least <= value < math.inf:
            raise ValueError(f"{name} must be at least {least:g}, not {value}")


def advanced(default: V) -> V:
    """Return a field with this default that only ``--help-all`` shows."""
    return dataclasses.field(default=default, metadata={"advanced": True})


def nested(default: V, *, without: Collection[str] = (), defaults: Mapping[str, str] = {}, advanced: bool = False) -> V:
    """Return a field that contains settings, with this default: their options are options of the outer class.

    Args:
        default: its values are the defaults of the options.
        without: options that the outer class does not have; it refuses other values of them.
        defaults: by option, the default in ``--help``, instead of the one in its documentation.
        advanced: whether only ``--help-all`` shows the options.
    """
    return dataclasses.field(default=default, metadata={"without": without, "defaults": defaults, "advanced": advanced})


@dataclass(frozen=True)
class Option:
    """One option."""

    name: str  # of the field
    group: str  # name of the field of the outer dataclass that has this one; empty for fields of the outer one
    # bool, int, float, str, Path or Time: the type of the value, or of each value of a tuple; the first type of a union
    kind: type
    many: bool  # whether the value is a tuple, on the command line with commas
    choices: tuple[str, ...]  # the values of a Literal
    default: Any  # or None
    help: str  # the documentation of the field
    advanced: bool = False  # whether only ``--help-all`` shows it

    @property
    def flag(self) -> str:
        """Return the option as written on the command line."""
        return "--" + self.name.replace("_", "-")

    def parse(self, text: Any) -> Any:
        """Return the value of a text; anything but text is a value already. Raises ValueError for text of another
        type."""
        if not isinstance(text, str):
            return tuple(text) if self.many else text
        try:
            if self.many:
                return tuple(self.kind(word.strip()) for word in text.split(",") if word.strip())
            return self.kind(text)
        except ValueError as error:
            problem = f"{text!r} {error}" if self.kind is Time else f"{text!r} is not {KIND_NAMES[self.kind]}"
            raise ValueError(f"`{self.name}`: {problem}") from error


def options_of(settings: Any, group: str = "", default: Any = None, nesting: Mapping[str, Any] = {}) -> list[Option]:
    """Return the options of a settings dataclass and of those nested in it, in order; the other arguments are name,
    default and metadata of the nesting field. Raises TypeError for a field of a type that no option can have."""
    options: list[Option] = []
    for field in fields(settings):
        name, (hint, text) = field.name, _field_types(settings)[field.name]
        if is_dataclass(hint):
            options += options_of(hint, name, field.default, field.metadata)
        elif field.metadata.get("option", True) and name not in nesting.get("without", ()):
            value = getattr(default, name) if group else None if field.default is MISSING else field.default
            if name in nesting.get("defaults", {}):
                text = f"{text.partition('Default: ')[0].strip()} Default: {nesting['defaults'][name]}."
            is_advanced = nesting.get("advanced", False) or field.metadata.get("advanced", False)
            options.append(Option(name, group, *parse_kind(hint), value, text, is_advanced))
    return options


@overload
def with_options(settings: type[S], /, **options: Any) -> S: ...
@overload
def with_options(settings: S, /, **options: Any) -> S: ...
def with_options(settings: Any, /, **options: Any) -> Any:
    """Return settings with other values of options or fields, each option by its own name wherever it is nested.
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
    """Return settings with the values of options, by name, as texts or values; defaults elsewhere. Raises ValueError
    for a value that does not fit."""
    values = {option.name: option.parse(texts[option.name]) for option in options_of(settings) if option.name in texts}
    return with_options(settings, **values)


def parse_kind(hint: Any) -> tuple[type, bool, tuple[str, ...]]:
    """Return the type of an option's value, whether it has several, and what a Literal lists. Raises TypeError."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return parse_kind(next(each for each in inner if each is not type(None)))
    if origin is Annotated:
        return (Time, False, ()) if Time in inner else parse_kind(inner[0])
    if origin in (tuple, list):
        return parse_kind(inner[0])[0], True, ()
    if origin is typing.Literal:
        return str, False, inner
    if hint not in (bool, int, float, str, Path):
        raise TypeError(f"{hint} cannot be an option")
    return hint, False, ()


@cache
def _field_types(settings: Any) -> dict[str, tuple[Any, str]]:
    """Return the type and the documentation of each field; the documentation on one line, without backquotes."""
    described = {}
    for name, hint in typing.get_type_hints(settings, include_extras=True).items():
        texts = [each.documentation for each in getattr(hint, "__metadata__", ()) if isinstance(each, Doc)]
        bare = hint.__origin__ if texts and Time not in hint.__metadata__ else hint
        described[name] = (bare, " ".join("".join(texts).replace("`", "").split()))
    return described
