"""Options that are generated from settings dataclasses."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from annotated_doc import Doc

from pipelines.options import NO_OPTION, Option, Settings, advanced, nested, options_of, resolve_settings, with_options
from pipelines.pretext import AugmentationSettings
from pipelines.settings import Grouping
from pipelines.stages.settings import PredictSettings


@dataclass(frozen=True)
class Inner(Settings):
    sides: Annotated[tuple[float, float], Doc("Two `sides`.")] = (1.0, 2.0)
    hidden: int = field(default=3, metadata=NO_OPTION)


@dataclass(frozen=True)
class Outer(Settings):
    folder: Annotated[
        Path,
        Doc("""Where it is,
        on two lines."""),
    ] = Path("here")
    files: tuple[Path, ...] = ()
    seed: Annotated[int | None, Doc("A number. Default: drawn.")] = None
    how: Literal["fast", "well"] = "fast"
    inner: Inner = nested(Inner())


def test_an_option_takes_name_type_default_and_help_from_its_field() -> None:
    assert options_of(Outer) == [
        Option("folder", Path, default=Path("here"), help="Where it is, on two lines."),
        Option("files", Path, many=True, default=()),
        Option("seed", int, help="A number.", default_text="drawn"),
        Option("how", str, choices=("fast", "well"), default="fast"),
        Option("sides", float, many=True, default=(1.0, 2.0), help="Two sides.", group="inner"),
    ]


def test_values_of_a_tuple_are_text_with_commas_or_a_list_or_one_value() -> None:
    assert Outer(files="a, b", seed="7") == Outer(files=(Path("a"), Path("b")), seed=7)  # type: ignore[arg-type]
    assert with_options(Outer, sides="3,4").inner.sides == (3.0, 4.0)
    assert Outer("there", ["a", Path("b")]) == Outer(Path("there"), (Path("a"), Path("b")))  # type: ignore[arg-type]
    assert Outer(files="a").files == (Path("a"),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "name", "value", "words"),
    [
        (PredictSettings, "threshold", "high", " must be a number, not 'high'"),
        (PredictSettings, "scenes", "1.5", " must be a whole number, not '1.5'"),
        (PredictSettings, "min_scene", "long", " must be seconds or a timecode, not 'long'"),
        (PredictSettings, "drop_short", "no", " must be true or false"),
        (PredictSettings, "shots", "", " must be a path, not ''"),
        (PredictSettings, "threshold", True, " must be a number, not True"),
        (PredictSettings, "start", [1.0], " must be seconds or a timecode"),
        (AugmentationSettings, "jitter_per", "frame", " must be one of .*, not 'frame'"),
    ],
)
def test_a_value_of_another_type_or_that_is_not_listed_is_a_value_error(
    settings: type, name: str, value: object, words: str
) -> None:
    with pytest.raises(ValueError, match=f"^`?{name}`?{words}"):
        with_options(settings, **{name: value})


def test_numbers_of_numpy_become_plain_ones_that_a_scenes_json_can_hold() -> None:
    given: dict[str, Any] = {"threshold": np.float32(0.25), "scenes": np.int64(3), "drop_short": np.bool_(False)}
    settings = Grouping(**given)
    assert json.dumps([settings.threshold, settings.scenes, settings.drop_short]) == "[0.25, 3, false]"


@dataclass(frozen=True)
class Common(Settings):
    seed: Annotated[int | None, Doc("Seed of the draws. Default: 0.")] = None
    resume: bool = False


@dataclass(frozen=True)
class Stage(Settings):
    common: Common = nested(Common(seed=3), without=("resume",), defaults={"seed": "drawn"})
    tuned: int = advanced(2)
    inner: Inner = nested(Inner(), advanced=True)


def test_nesting_gives_the_defaults_of_shared_options_leaves_some_out_and_marks_advanced_ones() -> None:
    options = [(option.name, option.default, option.advanced) for option in options_of(Stage)]
    assert options == [("seed", 3, False), ("tuned", 2, True), ("sides", (1.0, 2.0), True)]
    assert Stage().tuned == 2
    assert options_of(Stage)[0].default_text == "drawn"


def test_options_are_set_by_name_wherever_they_are_nested() -> None:
    changed = with_options(Stage(Common(4), tuned=5), seed=7, sides=(3, 4))
    assert changed == Stage(Common(7), tuned=5, inner=Inner((3.0, 4.0)))
    for name, advice in {"sed": r"; did you mean seed\?", "resume": ""}.items():
        with pytest.raises(TypeError, match=rf"^Stage has no option '{name}'{advice}$"):
            with_options(Stage, **{name: True})


def test_settings_of_another_kind_are_refused_with_the_way_to_pass_options() -> None:
    assert resolve_settings(Stage, Stage(tuned=5), {"seed": 7}) == Stage(Common(7), tuned=5)
    for wrong in (0.4, "a.srt", Common(4), Common):
        with pytest.raises(TypeError) as caught:
            resolve_settings(Stage, wrong, {})  # type: ignore[type-var]
        assert str(caught.value).startswith(f"settings must be Stage, not {wrong!r}; options are passed by name")
