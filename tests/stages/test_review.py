"""Review from Python: the next look, and answers as pins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bassl import BasslError, SceneList, load_scenes
from pipelines.models.scenes.review import review
from pipelines.outputs.results import is_corrected
from pipelines.scenes import SceneData
from tests import pages


@pytest.fixture
def scenes() -> SceneList:
    return SceneList(**vars(pages.invented(60)))


def ends(scenes: SceneData) -> set[int]:
    return {scene.end_shot - 1 for scene in scenes.scenes}


@pytest.mark.parametrize(("shots", "looks"), [(8, 20), (4, 40), (2, 59)])
def test_a_program_reviews_a_video_until_its_scenes_are_right(scenes: SceneList, shots: int, looks: int) -> None:
    truth = {4, 11, 12, 30, 44, 51}
    expected = []
    while (look := scenes.next_look(shots)) is not None:
        assert look.end_shot - look.start_shot == shots
        cuts = set(range(look.start_shot, look.end_shot - 1))
        assert set(look.ends) == ends(scenes) & cuts
        expected.append(look.expected_f1)
        scenes = scenes.pin(truth & cuts, cuts - truth)
        assert isinstance(scenes, SceneList)
    assert ends(scenes) == truth | {59}
    assert len(expected) <= looks
    assert expected[0] < expected[-1] <= 1


def test_a_look_shows_eight_shots_unless_told_otherwise_and_two_at_least(scenes: SceneList) -> None:
    assert scenes.next_look() == scenes.next_look(8) != scenes.next_look(4)
    with pytest.raises(BasslError, match=r"^a look shows two shots or more, not 1$"):
        scenes.next_look(1)


def test_answers_move_the_threshold_to_the_best_expected_f1_and_every_setting_keeps_them(
    scenes: SceneList, tmp_path: Path
) -> None:
    before = scenes.settings
    reviewed = scenes.pin(ends=[5], joined=range(6, 20))
    assert reviewed.settings == {
        **before,
        "threshold": review(
            [shot.score for shot in scenes.shots], {5: True} | dict.fromkeys(range(6, 20), False)
        ).threshold,
        "drop_short": False,
    }
    reviewed.save(tmp_path / "scenes.json")
    loaded = load_scenes(tmp_path / "scenes.json")
    for threshold in (0.01, 0.5, 0.99):
        assert ends(loaded.regroup(threshold=threshold)) & set(range(5, 20)) == {5}
    assert not reviewed.pin(joined=[5]).shots[5].pinned, "a later answer replaces an earlier one"
    assert scenes.shots[5].pinned is None, "the scenes before are left alone"


@pytest.mark.parametrize("settings", [{"scenes": 3}, {"edited_by_hand": True}])
def test_scenes_of_a_fixed_number_or_by_hand_change_only_at_the_answers(
    scenes: SceneList, settings: dict[str, object]
) -> None:
    by_hand = replace(scenes.pin([9, 25, 39], set(range(59)) - {9, 25, 39}))
    by_hand = replace(
        by_hand,
        settings={**scenes.settings, **settings},
        shots=scenes.shots,
        scenes=tuple(replace(scene, name=f"scene {scene.index}") for scene in by_hand.scenes),
    )
    changed = by_hand.pin(ends=[3], joined=[25, 50])
    assert ends(changed) == {3, 9, 39, 59}
    assert [scene.name for scene in changed] == [None, None, None, "scene 3"]
    assert [scene.index for scene in changed] == [0, 1, 2, 3]
    assert changed.settings["threshold"] == scenes.settings["threshold"]
    assert (changed.settings["scenes"], changed.settings["edited_by_hand"]) == (None, True)
    assert is_corrected(changed)


def test_corrections_by_hand_that_pins_explain_are_no_longer_marked_as_such(scenes: SceneList) -> None:
    by_hand = replace(scenes, settings={**scenes.settings, "edited_by_hand": True})
    assert "edited_by_hand" not in by_hand.pin(ends=ends(scenes) - {59}).settings


def test_shots_outside_scenes_stay_outside_until_they_are_joined(scenes: SceneList) -> None:
    parts = scenes.pin([9, 25, 39], set(range(59)) - {9, 25, 39}).scenes
    by_hand = replace(scenes, settings={**scenes.settings, "edited_by_hand": True}, scenes=(parts[0], parts[2]))
    look = by_hand.next_look()
    assert look is not None
    assert [(scene.start_shot, scene.end_shot) for scene in by_hand.pin(ends=[30])] == [(0, 10), (26, 31), (31, 40)]
    assert [(scene.start_shot, scene.end_shot) for scene in by_hand.pin(joined=[9])] == [(0, 26), (26, 40)]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"ends": [3], "joined": [2, 3]}, "shot 3 cannot both end a scene and be joined to the next shot"),
        ({"ends": [59]}, "shot 59 cannot be pinned: the video ends with it"),
        ({"joined": [60]}, "shot 60 cannot be pinned: the video has 60 shots, from 0"),
        ({"joined": [-1]}, "shot -1 cannot be pinned: the video has 60 shots, from 0"),
    ],
)
def test_answers_that_no_cut_has_are_refused(scenes: SceneList, answers: dict[str, list[int]], reason: str) -> None:
    with pytest.raises(BasslError, match=f"^{reason}$"):
        scenes.pin(**answers)
