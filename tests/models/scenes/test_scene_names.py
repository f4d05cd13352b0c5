"""Automatic names of scenes, from what is said in them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pipelines.models.scenes import with_automatic_names, with_scenes
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
    assert names(named) == ["harbor, sail", "soup, kitchen", None, "judge"]
    assert [scene.named_by for scene in named.scenes] == ["words", "words", None, "words"]
    assert not any(scene.is_named_by_hand for scene in named.scenes), "an automatic name is not a correction"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("Der Hafen ist kalt. Hafen!", "Die Suppe ist heiß. Suppe!"), ["Hafen, kalt", "Suppe, heiß"]),
        (("В порту холодно", "В кухне тепло"), ["холодно, порту", "кухне, тепло"]),
        (("港町は寒い。港町は", "台所は暖かい"), ["港町", "台所"]),
        (("Harbor", "harbor"), [None, None]),
        (("Danny", "Danny", "Soup", "Harbor"), ["Danny", "Danny", "Soup", "Harbor"]),  # two may share a name
        (("only one scene",), [None]),
        (("12 34", "!?"), [None, None]),
        # Words keep the marks of their letters.
        (("नमस्कार! नमस्कार, आप कैसे हैं?", "यह रसोई है, रसोई गर्म है"), ["नमस्कार, कैसे", "रसोई, गर्म"]),
        (("in Zu\u0308rich, in Zu\u0308rich", "Suppe. Suppe, heiß"), ["Z\u00fcrich", "Suppe, heiß"]),
        (("سَلام سَلام", "مَطبخ"), ["سَلام", "مَطبخ"]),
        (("O\u2019Brien sails. O'Brien!", "Soup"), ["O'Brien, sails", "Soup"]),
    ],
)
def test_names_have_no_stop_words_of_the_language_in_which_they_are_said(
    texts: tuple[str, ...], expected: list[str | None]
) -> None:
    assert names(with_automatic_names(spoken(*texts))) == expected


@pytest.mark.timeout(20)
def test_a_word_of_a_megabyte_of_marks_takes_linear_time() -> None:
    with_automatic_names(spoken("a" + "\u0316\u0300" * 500_000, "The kitchen"))


def test_no_three_scenes_share_a_name_from_words() -> None:
    texts = ["Danny, Danny. Soup", "Danny, Danny. Harbor", "Danny, Danny. Judge", "Danny", "Danny", "Danny", "", *"xyz"]
    texts += ["It is cold and they are here"] * 9
    named = names(with_automatic_names(spoken(*texts)))
    assert named[:6] == ["Soup, Danny", "Harbor, Danny", "Judge, Danny", None, None, None]
    assert max(Counter(filter(None, named)).values()) < 3


@pytest.mark.parametrize(
    ("ends", "expected", "source"),
    [
        ((3, 9), ["Kept", None], None),
        ((4, 9), ["Kept", None], "program"),
        ((5, 9), ["Kept", None], "words"),
        ((6, 9), [None, None], None),
        ((1, 3, 9), [None, None, None], None),
        ((0, 3, 9), [None, "Kept", None], None),
        ((0, 9), [None, None], None),
    ],
)
def test_a_corrected_scene_keeps_its_name_until_more_than_half_of_its_shots_change(
    ends: tuple[int, ...], expected: list[str | None], source: str | None
) -> None:
    scenes = scene_list([25] * 10)
    first, second = group_shots(scenes.shots, (3, 9))
    scenes = replace(scenes, scenes=(replace(first, name="Kept", named_by=source), second))
    settings = {**scenes.settings, "min_scene": 0, "max_scene": 0}
    changed = with_scenes(scenes, group_shots(scenes.shots, ends), settings)
    assert names(changed) == expected
    assert {scene.named_by for scene in changed.scenes if scene.name} <= {source}


def test_a_scene_that_is_hardly_anything_but_credits_is_named_so() -> None:
    scenes = spoken("Thanks to everybody", "The harbor is cold", "Go home")
    credits = (Segment("opening_credits", 0, 24, 0.0, 0.96), Segment("end_credits", 55, 75, 2.2, 3.0))
    named = with_automatic_names(replace(scenes, segments=credits))
    assert names(named) == ["Opening credits", "harbor, cold, The", "home"]
    assert [scene.named_by for scene in named.scenes] == ["credits", "words", "words"]
    assert not any(scene.is_named_by_hand for scene in named.scenes)


def test_a_name_is_never_put_over_one_by_a_person_or_a_program() -> None:
    scenes = spoken(*ENGLISH)
    first, second, *others = scenes.scenes
    first, second = replace(first, name="By hand"), replace(second, name="Described", named_by="program")
    named = with_automatic_names(replace(scenes, scenes=(first, second, *others)))
    assert names(named) == ["By hand", "Described", None, "judge"]
    assert [scene.named_by for scene in named.scenes] == [None, "program", None, "words"]


def test_names_from_words_are_made_again_for_other_scenes_and_the_others_stay_with_theirs() -> None:
    scenes = with_automatic_names(spoken(*ENGLISH))
    first, *others = scenes.scenes
    scenes = replace(scenes, scenes=(replace(first, name="By hand", named_by=None), *others))
    merged = with_scenes(
        scenes, group_shots(scenes.shots, (0, 2, 3)), {**scenes.settings, "min_scene": 0, "max_scene": 0}
    )
    assert names(merged) == ["By hand", "soup, kitchen", "judge"]
    apart = with_scenes(merged, group_shots(merged.shots, (1, 3)), merged.settings)
    assert names(apart) == ["harbor, Danny, cold", "judge"]
    assert {scene.named_by for scene in apart.scenes} == {"words"}
