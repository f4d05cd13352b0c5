"""Options described by settings dataclasses: fields give names, types and defaults, their annotations help texts."""

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

from pipelines.errors import suggestion
from pipelines.files import EMPTY_NAME
from pipelines.scenes import parse_time

S = TypeVar("S")
V = TypeVar("V")
NO_OPTION: Mapping[str, bool] = {"option": False}
"""Metadata of a field that is not an option, because other settings decide it."""


class Time(float):
    """Type of a field that is a time: seconds, or a text that :func:`pipelines.scenes.parse_time` reads."""


Seconds = Annotated[float, Time]
_KIND_NAMES: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    Time: "seconds or a timecode",
}


@dataclass(frozen=True)
class Option:
    """One option."""

    name: str  # of the field
    kind: type  # bool, int, float, str, Path or Time: of the value, or of each value; the first type of a union
    many: bool = False  # whether the value is a tuple, on the command line with commas
    choices: tuple[str, ...] = ()  # the values of a Literal
    optional: bool = False  # whether the value may be None
    default: Any = None
    help: str = ""  # the documentation of the field, up to "Default: "
    default_text: str = ""  # the documentation after that
    advanced: bool = False  # whether only ``--help-all`` shows it
    group: str = ""  # name of the field of the outer dataclass that has this one; empty for fields of the outer one
    heading: str = ""  # of the settings class, see `Settings`

    @property
    def flag(self) -> str:
        """Return the option as written on the command line."""
        return "--" + self.name.replace("_", "-")

    def parse(self, text: Any) -> Any:
        """Return the value that a text on the command line stands for, with commas between several; anything but text
        is a value already. Raises ValueError."""
        if not isinstance(text, str):
            return text
        words = [word.strip() for word in text.split(",") if word.strip()] if self.many else [text]
        try:
            values = [self.kind(word) for word in words] if self.kind in (int, float) else words
        except ValueError as error:
            raise ValueError(f"`{self.name}`: {text!r} is not {_KIND_NAMES[self.kind]}") from error
        return values if self.many else values[0]

    def coerce(self, value: Any) -> Any:
        """Return the value as the type of the field. Raises ValueError for another type, or none of the choices."""
        if value is None and self.optional:
            return None
        if self.choices and value not in self.choices:
            raise ValueError(f"{self.name} must be one of {', '.join(self.choices)}, not {value!r}")
        if not self.many:
            return self._coerce_one(value)
        is_several = isinstance(value, Iterable) and not isinstance(value, str)
        return tuple(map(self._coerce_one, value if is_several else (value,)))

    def _coerce_one(self, value: Any) -> Any:
        kind, is_bool = self.kind, isinstance(value, bool)
        if kind is Path and value == "":
            raise ValueError(f"`{self.name}`: {EMPTY_NAME}")
        if kind is Time and isinstance(value, str):
            try:
                return parse_time(value)
            except ValueError as error:
                raise ValueError(f"`{self.name}`: {value!r} {error}") from error
        if kind is bool and value in (False, True):
            return bool(value)
        if kind is int and isinstance(value, SupportsIndex) and not is_bool:
            return operator.index(value)
        if kind in (float, Time) and isinstance(value, SupportsFloat) and not is_bool:
            return value if isinstance(value, int) else float(value)
        if kind is Path and isinstance(value, str | os.PathLike):
            return Path(value)
        if kind is str and not isinstance(value, SupportsFloat):  # also another type of a union, such as a path
            return value
        words = f"the text {value!r}" if isinstance(value, str) else repr(value)
        raise ValueError(f"{self.name} must be {_KIND_NAMES[kind]}, not {words}")


@dataclass(frozen=True)
class Settings:
    """Base of settings: frozen dataclasses whose fields are options, or other settings.

    Fields accept text for paths and times, NumPy's numbers, and lists or single values for tuples. Raises ValueError
    for a value that is not of the field's type, or that a Literal does not list.
    """

    heading = ""  # of the options in the help of a command

    def __post_init__(self) -> None:
        kind: Any = type(self)
        options = _own_options(kind)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in options:
                object.__setattr__(self, field.name, options[field.name].coerce(value))
            elif not isinstance(value, type(field.default)):
                raise ValueError(f"{field.name}: {value!r} is not {type(field.default).__name__}")
            for name in field.metadata.get("without", ()):
                if getattr(value, name) != getattr(field.default, name):
                    raise ValueError(f"{name} is not an option of {kind.__name__}")


def check_at_least(settings: Any, least: float, *names: str) -> None:
    """Raise ValueError, one line, for a field below ``least``, infinite or NaN; None is accepted."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not least <= value < math.inf:
            raise ValueError(f"{name} must be at least {least:g}, not {value}")


def check_range(settings: Any, least: int, most: int, *names: str) -> None:
    """Raise ValueError, one line, for a field below ``least`` or above ``most``; None is accepted."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not least <= value <= most:
            raise ValueError(f"{name} must be from {least:,} to {most:,}, not {value:,}")


def advanced(default: V) -> V:
    """Return a field with this default that only ``--help-all`` shows."""
    return dataclasses.field(default=default, metadata={"advanced": True})


def nested(default: V, *, without: Collection[str] = (), defaults: Mapping[str, str] = {}, advanced: bool = False) -> V:
    """Return a field of settings whose options are options of the outer class too, except those ``without``, whose
    values are fixed. ``defaults`` are shown in ``--help`` instead of the documentation's; ``advanced`` options only in
    ``--help-all``."""
    return dataclasses.field(default=default, metadata={"without": without, "defaults": defaults, "advanced": advanced})


def option_of(name: str, hint: Any, default: Any = None) -> Option:
    """Return the option of an annotation. Raises TypeError for a type that no option can have."""
    many, optional, choices, text = False, False, (), ""
    while origin := typing.get_origin(hint):
        inner = typing.get_args(hint)
        text = next((each.documentation for each in inner if isinstance(each, Doc)), text)
        if origin in (types.UnionType, typing.Union):
            optional, hint = type(None) in inner, next(each for each in inner if each is not type(None))
        elif origin is typing.Literal:
            choices, hint = () if many else inner, str
        else:
            many = many or origin in (tuple, list)
            hint = Time if Time in inner else inner[0]
    if hint not in _KIND_NAMES:
        raise TypeError(f"{hint} cannot be an option")
    help_text, _, default_text = " ".join(text.replace("`", "").split()).partition("Default: ")
    default = None if default is MISSING else default
    return Option(name, hint, many, choices, optional, default, help_text.strip(), default_text.rstrip("."))


@cache
def _own_options(settings: Any) -> dict[str, Option]:
    """Return an option for each field of a dataclass that is not itself settings."""
    hints = typing.get_type_hints(settings, include_extras=True)
    options: dict[str, Option] = {}
    for field in fields(settings):
        if not is_dataclass(field.default):
            option = option_of(field.name, hints[field.name], field.default)
            is_advanced = field.metadata.get("advanced", False)
            options[field.name] = replace(option, advanced=is_advanced, heading=settings.heading)
    return options


def options_of(settings: Any) -> list[Option]:
    """Return the options of a settings dataclass and of those nested in it, in order. Raises TypeError for a field of a
    type that no option can have."""
    direct, options = _own_options(settings), []
    for field in fields(settings):
        facts = field.metadata
        if field.name in direct:
            options += [direct[field.name]] * facts.get("option", True)
            continue
        for option in options_of(type(field.default)):
            if option.name not in facts.get("without", ()):
                default_text = facts.get("defaults", {}).get(option.name, option.default_text)
                is_advanced = option.advanced or facts.get("advanced", False)
                texts: dict[str, Any] = {"default_text": default_text, "advanced": is_advanced}
                options.append(replace(option, default=getattr(field.default, option.name), group=field.name, **texts))
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
    if not is_dataclass(kind):
        raise TypeError(f"with_options takes settings such as PredictSettings, not {settings!r}")
    groups = {field.name: "" for field in fields(kind)} | {option.name: option.group for option in options_of(kind)}
    changes: dict[str, Any] = {}
    for name, value in options.items():
        if name not in groups:
            raise TypeError(f"{kind.__name__} has no option {name!r}{suggestion(name, groups)}")
        if group := groups[name]:
            changes[group] = replace(changes.get(group, getattr(settings, group)), **{name: value})
        else:
            changes[name] = value
    return kind(**changes) if kind is settings else replace(settings, **changes)


def resolve_settings(kind: type[S], settings: S | type[S], options: Mapping[str, Any]) -> S:
    """Return the settings of a call, with the options that it names. Raises TypeError, one line, for settings of
    another kind and as `with_options`, and ValueError as the settings."""
    if not isinstance(settings, kind) and settings is not kind:
        advice = "options are passed by name, for example " + ", ".join(f"{one.name}=" for one in options_of(kind)[:3])
        raise TypeError(f"settings must be {kind.__name__}, not {settings!r}; {advice}")
    changed: S = with_options(settings, **options)
    return changed
