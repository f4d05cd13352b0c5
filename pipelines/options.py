"""Command-line options out of a dataclass of settings: its fields are the names, defaults and texts."""

from __future__ import annotations

import argparse
import ast
import inspect
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

S = TypeVar("S")


@dataclass(frozen=True)
class Option:
    """One setting.

    Attributes:
        name: of the field.
        group: of the dataclass it is in, as the outer one calls it; empty for its own fields.
        kind: bool, int, float, str or Path, the type of the value or, where there are several, of each.
        many: whether the value is a tuple, given with commas.
        default: None where there is none.
        help: the first sentence or two of the field's docstring.
        choices: the values of a Literal.
    """

    name: str
    group: str
    kind: type
    many: bool
    default: Any
    help: str
    choices: tuple[str, ...]

    @property
    def flag(self) -> str:
        """As it is written on the command line."""
        return "--" + self.name.replace("_", "-")

    def read(self, text: Any) -> Any:
        """The value of what was given.

        Raises:
            ValueError: one line, for text that is no such value.
        """
        if not isinstance(text, str):
            return text
        try:
            if self.many:
                return tuple(map(self.kind, words(text)))
            return self.kind(text)
        except ValueError as error:
            raise ValueError(f"{self.flag}: {text!r} is not {self.kind.__name__}") from error

    @property
    def shown(self) -> Any:
        """The default as it would be typed."""
        return ",".join(map(str, self.default)) if self.many else self.default


def options_of(settings: type[Any], skip: Sequence[str] = (), group: str = "") -> list[Option]:
    """The options of a settings dataclass and of those that it holds, in order."""
    hints, texts = typing.get_type_hints(settings), _docstrings(settings)
    options: list[Option] = []
    for field in fields(settings):
        if field.name in skip:
            continue
        hint = hints[field.name]
        if is_dataclass(hint):
            options += options_of(typing.cast("type[Any]", hint), skip, field.name)
            continue
        default = field.default if field.default is not MISSING else None
        kind, many, choices = _kind(hint)
        options.append(Option(field.name, group, kind, many, default, texts.get(field.name, ""), choices))
    return options


def settings_from(settings: type[S], options: Sequence[Option], given: Mapping[str, Any]) -> S:
    """Settings with what was given for the options by name, defaults elsewhere.

    Raises:
        ValueError: one line, for a value that does not fit.
    """
    hints = typing.get_type_hints(settings)
    values: dict[str, dict[str, Any]] = {}
    for option in options:
        if option.name in given:
            values.setdefault(option.group, {})[option.name] = option.read(given[option.name])
    inner = {group: hints[group](**chosen) for group, chosen in values.items() if group}
    return settings(**values.get("", {}), **inner)


def words(text: str | None) -> tuple[str, ...]:
    """The words of a text that has them with commas between; none of no text."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def parse(settings: type[S], program: str, arguments: Sequence[str] | None) -> S:
    """Settings from a command line.

    Raises:
        ValueError: one line, for a value that does not fit.
        SystemExit: for options that there are not, and for ``--help``.
    """
    options = options_of(settings, skip=("mean", "std"))
    parser = argparse.ArgumentParser(program, argument_default=argparse.SUPPRESS)
    for option in options:
        text = f"{option.help} (default: {option.shown})".replace("%", "%%")
        if option.kind is bool:
            parser.add_argument(option.flag, dest=option.name, action=argparse.BooleanOptionalAction, help=text)
        else:
            parser.add_argument(option.flag, dest=option.name, choices=option.choices or None, help=text)
    return settings_from(settings, options, vars(parser.parse_args(arguments)))


def _kind(hint: Any) -> tuple[type, bool, tuple[str, ...]]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _kind(next(each for each in inner if each is not type(None)))
    if origin is tuple:
        return _kind(inner[0])[0], True, ()
    if origin is typing.Literal:
        return str, False, inner
    if hint not in (bool, int, float, str, Path):
        raise TypeError(f"no option can be made of {hint}")
    return hint, False, ()


def _docstrings(settings: type[Any]) -> dict[str, str]:
    """The text under each field, on one line."""
    body = typing.cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(settings))).body[0]).body
    texts = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            texts[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return texts
