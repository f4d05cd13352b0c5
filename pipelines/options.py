"""Options described by settings dataclasses: fields give names, types and defaults, their annotations help texts."""

from __future__ import annotations

import dataclasses
import math
import operator
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, SupportsFloat, SupportsIndex, TypeVar, overload

from annotated_doc import Doc

from pipelines.errors import suggestion
from pipelines.scenes import parse_time

S = TypeVar("S")
NO_OPTION: Mapping[str, bool] = {"option": False}  # metadata of a field that other settings decide


class Time(float):
    """Type of a field that is a time, 0 or more: seconds, or a text that :func:`pipelines.scenes.parse_time` reads."""


Seconds = Annotated[float, Time]
_KIND_NAMES: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    Time: "seconds or a timecode",
}
_PARSERS: Mapping[type, Callable[[str], Any]] = {int: int, float: float, Time: parse_time}


@dataclass(frozen=True)
class Option:
    """One option."""

    name: str  # of the field
    kind: type  # bool, int, float, str, Path or Time: of the value, or of each value; the first type of a union
    many: bool = False  # whether the value is a tuple, on the command line with commas
    choices: tuple[str, ...] = ()  # the values of a Literal
    default: Any = None  # if it is None, the value may be None
    help: str = ""  # the documentation of the field, up to "Default: "
    default_text: str = ""  # the documentation after that
    heading: str = ""  # of the settings class
    group: str = ""  # name of the field of the outer dataclass that has this one; empty for fields of the outer one
    advanced: bool = False  # whether only ``--help-all`` shows it

    def coerce(self, value: Any) -> Any:
        """Return a value, or text as on the command line, as the field's type. Raises ValueError for another type."""
        if value is None and self.default is None:
            return None
        if self.choices and value not in self.choices:
            raise ValueError(f"{self.name} must be one of {', '.join(self.choices)}, not {value!r}")
        if not self.many:
            return self._coerce_one(value)
        if isinstance(value, str):
            value = [word.strip() for word in value.split(",") if word.strip()]
        return tuple(map(self._coerce_one, value if isinstance(value, Iterable) else (value,)))

    def _coerce_one(self, value: Any) -> Any:
        kind = self.kind
        if isinstance(value, str) and kind in _PARSERS:
            with suppress(ValueError):
                value = _PARSERS[kind](value)
        is_number = isinstance(value, SupportsFloat) and not isinstance(value, bool)
        if kind is Time and is_number and not 0 <= value < math.inf:
            raise ValueError(f"{self.name} must be at least 0, not {value}")
        if kind in (float, Time) and is_number:
            return value if isinstance(value, int) else float(value)
        if kind is int and is_number and isinstance(value, SupportsIndex):
            return operator.index(value)
        if kind is bool and value in (False, True):
            return bool(value)
        if kind is Path and isinstance(value, str | os.PathLike) and value != "":
            return Path(value)
        if kind is str and not isinstance(value, SupportsFloat):  # also another type of a union, such as a path
            return value
        raise ValueError(f"`{self.name}` must be {_KIND_NAMES[kind]}, not {value!r}")


@dataclass(frozen=True)
class Settings:
    """Base of settings: frozen dataclasses whose fields are options, or other settings. Fields accept text as on the
    command line, NumPy's numbers, and lists or single values for tuples. Raises ValueError for other values."""

    heading = ""  # of the options in the help of a command

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for option in options_of(kind):
            if not option.group:
                object.__setattr__(self, option.name, option.coerce(getattr(self, option.name)))


def check_at_least(settings: Any, least: float, *names: str) -> None:
    """Raise ValueError, one line, for a field below ``least``, infinite or NaN; None is accepted."""
    check_range(settings, least, math.inf, *names)


def check_range(settings: Any, least: float, most: float, *names: str) -> None:
    """Raise ValueError, one line, for a field below ``least``, above ``most``, infinite or NaN; None is accepted."""
    limits = f"at least {least:g}" if most == math.inf else f"from {least:,} to {most:,}"
    for name in names:
        value = getattr(settings, name)
        if value is not None and not (least <= value <= most and value < math.inf):
            raise ValueError(f"{name} must be {limits}, not {value:,}")


def advanced(default: S) -> S:
    """Return a field with this default that only ``--help-all`` shows."""
    return dataclasses.field(default=default, metadata={"advanced": True})


def nested(default: S, *, without: Collection[str] = (), defaults: Mapping[str, str] = {}, advanced: bool = False) -> S:
    """Return a field of settings whose options are options of the outer class too, except those ``without``, whose
    values are fixed. ``defaults`` replace the documentation's in help; ``advanced`` leaves all to ``--help-all``."""
    return dataclasses.field(default=default, metadata={"without": without, "defaults": defaults, "advanced": advanced})


def option_of(name: str, hint: Any, default: Any = None, **facts: Any) -> Option:
    """Return the option of an annotation, with other fields of `Option`. Raises TypeError for an impossible type."""
    many, choices, text = False, (), ""
    while origin := typing.get_origin(hint):
        inner = typing.get_args(hint)
        text = next((each.documentation for each in inner if isinstance(each, Doc)), text)
        if origin in (types.UnionType, typing.Union):
            hint = next(each for each in inner if each is not type(None))
        elif origin is typing.Literal:
            choices, hint = () if many else inner, str
        else:
            many = many or origin in (tuple, list)
            hint = Time if Time in inner else inner[0]
    if hint not in _KIND_NAMES:
        raise TypeError(f"{hint} cannot be an option")
    help_text, _, default_text = " ".join(text.replace("`", "").split()).partition("Default: ")
    default = None if default is MISSING else default
    return Option(name, hint, many, choices, default, help_text.strip(), default_text.rstrip("."), **facts)


@cache
def options_of(settings: Any) -> list[Option]:
    """Return the options of a settings dataclass and of those nested in it, in order. Raises as `option_of`."""
    options: list[Option] = []
    hints = typing.get_type_hints(settings, include_extras=True)
    for field in fields(settings):
        name, facts = field.name, field.metadata
        inner: Any = type(field.default)
        if is_dataclass(field.default):
            for option in options_of(inner):
                if option.name not in facts["without"]:
                    text = facts["defaults"].get(option.name, option.default_text)
                    changes: dict[str, Any] = {"default_text": text, "advanced": option.advanced or facts["advanced"]}
                    options.append(replace(option, default=getattr(field.default, option.name), group=name, **changes))
        elif facts != NO_OPTION:
            options.append(option_of(name, hints[name], field.default, heading=settings.heading, **facts))
    return options


@overload
def with_options(settings: type[S], /, **options: Any) -> S: ...
@overload
def with_options(settings: S, /, **options: Any) -> S: ...
def with_options(settings: Any, /, **options: Any) -> Any:
    """Return a copy of settings with other values of options or fields, by name wherever they are nested. A class is
    its defaults. Raises TypeError, one line, for an unknown name, and ValueError for a value that is refused."""
    kind = settings if isinstance(settings, type) else type(settings)
    groups = {field.name: "" for field in fields(kind)} | {option.name: option.group for option in options_of(kind)}
    by_group: dict[str, dict[str, Any]] = {"": {}}
    for name, value in options.items():
        if name not in groups:
            raise TypeError(f"{kind.__name__} has no option {name!r}{suggestion(name, groups)}")
        by_group.setdefault(groups[name], {})[name] = value
    changes = by_group.pop("")
    for group, values in by_group.items():  # options of a group may be valid only together
        changes[group] = replace(changes.get(group, getattr(settings, group)), **values)
    return kind(**changes) if kind is settings else replace(settings, **changes)


def resolve_settings(kind: type[S], settings: S | None, options: Mapping[str, Any]) -> S:
    """Return the settings of a call, None for the defaults, with the options that it names. Raises TypeError, one line,
    for settings of another kind and as `with_options`, and ValueError as the settings."""
    if settings is not None and not isinstance(settings, kind):
        raise TypeError(f"settings must be {kind.__name__}, not {settings!r}; options are passed by name")
    return with_options(settings or kind, **options)
