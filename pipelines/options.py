"""Command-line options described by a settings dataclass: its fields give names, types, defaults and help texts."""

from __future__ import annotations

import ast
import inspect
import operator
import os
import textwrap
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
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
RARE: Mapping[str, bool] = {"rare": True}


class Time(float):
    """Seconds, from a number or a text: seconds or a timecode, see :func:`pipelines.scenes.parse_time`."""

    def __new__(cls, value: float | str) -> Time:
        return super().__new__(cls, parse_time(value) if isinstance(value, str) else value)


Seconds = Annotated[float, Time]
"""The type of a field that is a time: seconds, or a text with seconds or a timecode."""


@dataclass(frozen=True)
class Option:
    """One option."""

    name: str  # of the field
    group: str  # name of the field of the outer dataclass that holds this one; empty for fields of the outer one
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
    """A field with this default that only ``--help-all`` shows."""
    return field(default=default, metadata=RARE)


def nested(default: V, *, without: Collection[str] = (), defaults: Mapping[str, str] = {}, rare: bool = False) -> V:
    """A field that is a settings dataclass, with this default: its options are options of the outer class.

    Args:
        default: frozen; its values are the defaults of the options.
        without: its options that the outer class does not have; `accept_text` refuses other values of them.
        defaults: by option, what ``--help`` says to be the default, instead of what the docstring says.
        rare: whether only ``--help-all`` shows the options.
    """
    return field(default=default, metadata={"without": without, "defaults": defaults, "rare": rare})


def options_of(settings: Any, group: str = "", within: Any = None) -> tuple[Option, ...]:
    """The options of a settings dataclass and of those nested in it, in order. ``group`` is the name of the nesting
    field, ``within`` that field. Raises TypeError for a field of a type that no option can have."""
    hints, texts = typing.get_type_hints(settings, include_extras=True), field_texts(settings)
    nesting = within.metadata if within else {}
    options: list[Option] = []
    for one in fields(settings):
        hint = hints[one.name]
        if is_dataclass(hint):
            options += options_of(hint, one.name, one)
        elif one.metadata.get("option", True) and one.name not in nesting.get("without", ()):
            default = getattr(default_of(within), one.name) if within else default_of(one)
            text = texts.get(one.name, "")
            if one.name in nesting.get("defaults", {}):
                text = f"{text.partition('Default: ')[0].strip()} Default: {nesting['defaults'][one.name]}."
            kind, many, choices = kind_of(hint)
            is_rare = nesting.get("rare", False) or one.metadata.get("rare", False)
            options.append(Option(one.name, group, kind, many, default, text, choices, is_rare))
    return tuple(options)


def default_of(one: Any) -> Any:
    """The default of a field; None if there is none."""
    if one.default_factory is not MISSING:
        return one.default_factory()
    return None if one.default is MISSING else one.default


@overload
def with_options(settings: type[S], /, **options: Any) -> S: ...
@overload
def with_options(settings: S, /, **options: Any) -> S: ...
def with_options(settings: Any, /, **options: Any) -> Any:
    """Settings with other values of options, each by its own name wherever it is nested.

    Args:
        settings: changed in a copy; or a class, for its defaults.
        options: values of options or fields.

    Raises:
        TypeError: one line, for a name that is neither.
        ValueError: one line, for a value that the settings refuse.
    """
    kind = settings if isinstance(settings, type) else type(settings)
    groups = {option.name: option.group for option in options_of(kind)}
    own = {one.name: one for one in fields(kind)}
    values: dict[str, dict[str, Any]] = {}
    for name, value in options.items():
        if name not in groups and name not in own:
            raise TypeError(f"{kind.__name__} has no option {name!r}")
        values.setdefault(groups.get(name, ""), {})[name] = value
    inner = {}
    for group, changes in values.items():
        if group:
            inner[group] = replace(default_of(own[group]) if kind is settings else getattr(settings, group), **changes)
    changes = values.get("", {}) | inner
    return kind(**changes) if kind is settings else replace(settings, **changes)


def settings_from(settings: type[S], texts: Mapping[str, Any]) -> S:
    """Settings with the values of options, by name, as texts or values; defaults elsewhere. Raises ValueError for a
    value that does not fit."""
    values = {option.name: option.read(texts[option.name]) for option in options_of(settings) if option.name in texts}
    return with_options(settings, **values)


def accept_text(settings: Any) -> None:
    """Accept text for the paths and times of a frozen dataclass, NumPy's numbers, and lists or single values for
    tuples. For ``__post_init__``: replaces the values of such fields. Raises ValueError for a
    value that is not of the field's type, or that a Literal does not list."""
    hints = typing.get_type_hints(type(settings), include_extras=True)
    for one in fields(settings):
        name, hint, value = one.name, hints[one.name], getattr(settings, one.name)
        if is_dataclass(hint):
            kind: type = typing.cast("type", hint)
            if not isinstance(value, kind):
                raise ValueError(f"{name}: {value!r} is not {kind.__name__}")
            for option in one.metadata.get("without", ()):
                if getattr(value, option) != getattr(one.default, option):
                    raise ValueError(f"{option} is not an option of {type(settings).__name__}")
            continue
        if value is None and type(None) in typing.get_args(hint):
            continue
        of_value, many, choices = kind_of(hint)
        if choices and value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        if many:
            each = value if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
            object.__setattr__(settings, name, tuple(_of_kind(of_value, one, name) for one in each))
        else:
            object.__setattr__(settings, name, _of_kind(of_value, value, name))


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
    """Raises ValueError, one line, for a field below ``least`` or NaN; None is accepted."""
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
