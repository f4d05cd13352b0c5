"""Automatic names of scenes, from what is said in them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.models.scenes.scene_ends import with_scenes
from pipelines.models.scenes.scene_names import with_automatic_names
from pipelines.outputs.results import names_and_pins
from pipelines.scenes import Line, SceneData, Segment, group_shots
from tests.outputs.exporting import scene_list


def spoken(*texts: str) -> SceneData:
    """A scene of one second for each text."""
    scenes = scene_list([25] * len(texts))
    return replace(scenes, lines=tuple(Line(i + 0.1, i + 0.9, text) for i, text in enumerate(texts) if text))


def names(scenes: SceneData) -> list[str | None]:
    return [scene.name for scene in scenes.scenes]


ENGLISH = (
    "We sail to the harbor. The harbor is cold, Danny, and I know it.",
    "Danny is in the kitchen and the soup is cold. I like soup.",
    "",
    "The judge is here. I know the judge.",
)


def test_a_scene_is_named_by_the_terms_that_are_said_in_it_and_in_few_others() -> None:
    named = with_automatic_names(spoken(*ENGLISH))
    assert names(named) == ["harbor, sail", "soup, kitchen, like", None, "judge, here"]
    assert [scene.named_by for scene in named.scenes] == ["words", "words", None, "words"]
    assert names_and_pins(named) == set(), "an automatic name is not a correction"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("Der Hafen ist kalt. Hafen!", "Die Suppe ist heiß. Suppe!"), ["Hafen, kalt, Der", "Suppe, heiß, Die"]),
        (("В порту холодно", "В кухне тепло"), ["холодно, порту", "кухне, тепло"]),
        (("港は寒い。港は", "台所は暖かい"), ["港は, は寒, 寒い", "かい, は暖, 台所"]),
        (("Harbor", "harbor"), [None, None]),
        (("only one scene",), [None]),
        (("12 34", "!?"), [None, None]),
    ],
)
def test_names_need_no_knowledge_of_the_language(texts: tuple[str, ...], expected: list[str | None]) -> None:
    assert names(with_automatic_names(spoken(*texts))) == expected


def test_a_scene_that_is_hardly_anything_but_credits_is_named_so() -> None:
    scenes = spoken("Thanks to everybody", "The harbor is cold", "Go home")
    credits = (Segment("opening_credits", 0, 24, 0.0, 0.96), Segment("end_credits", 55, 75, 2.2, 3.0))
    named = with_automatic_names(replace(scenes, segments=credits))
    assert names(named) == ["Opening credits", "harbor, cold, The", "home"]
    assert [scene.named_by for scene in named.scenes] == ["credits", "words", "words"]
    assert names_and_pins(named) == set()


def test_a_name_is_never_put_over_one_by_a_person_or_a_program() -> None:
    scenes = spoken(*ENGLISH)
    first, second, *others = scenes.scenes
    first, second = replace(first, name="By hand"), replace(second, name="Described", named_by="program")
    named = with_automatic_names(replace(scenes, scenes=(first, second, *others)))
    assert names(named) == ["By hand", "Described", None, "judge, here"]
    assert [scene.named_by for scene in named.scenes] == [None, "program", None, "words"]


def test_names_from_words_are_made_again_for_other_scenes_and_the_others_stay_with_theirs() -> None:
    scenes = with_automatic_names(spoken(*ENGLISH))
    first, *others = scenes.scenes
    scenes = replace(scenes, scenes=(replace(first, name="By hand", named_by=None), *others))
    merged = with_scenes(
        scenes, group_shots(scenes.shots, (0, 2, 3)), {**scenes.settings, "min_scene": 0, "max_scene": 0}
    )
    assert names(merged) == ["By hand", "soup, kitchen, like", "judge, here"]
    apart = with_scenes(merged, group_shots(merged.shots, (1, 3)), merged.settings)
    assert names(apart) == ["harbor, Danny, cold", "judge, here"]
    assert {scene.named_by for scene in apart.scenes} == {"words"}
