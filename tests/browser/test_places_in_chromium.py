"""Places that return, on the page: letters, the scenes of a place lit up, and what is saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.scenes import SceneData, group_shots, lettered
from tests import pages
from tests.browser.opening import opened_page, press, saved


def with_places(numbers: list[int | None]) -> SceneData:
    """Scenes of two shots, each scene in the place of this number."""
    scenes = pages.invented(2 * len(numbers))
    shots = tuple(replace(shot, setting=numbers[shot.index // 2], score=shot.index % 2) for shot in scenes.shots)
    groups = group_shots(shots, range(1, len(shots), 2))
    return replace(scenes, shots=shots, scenes=lettered(groups, shots))


def test_letters_are_those_of_python(browser: Browser, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cases, expected = [], []
    scenes = pages.invented(40)
    for most in (2, 4, 60):
        for _ in range(20):
            numbers = [None if number < 0 else int(number) for number in rng.integers(-1, most, 40)]
            shots = [replace(shot, setting=number) for shot, number in zip(scenes.shots, numbers, strict=True)]
            groups = group_shots(shots, [*np.sort(rng.choice(39, 12, replace=False)).tolist(), 39])
            cases.append([[vars(scene) for scene in groups], [vars(shot) for shot in shots]])
            expected.append([scene.setting for scene in lettered(groups, shots)])
    with opened_page(browser, tmp_path, scenes) as seen:
        actual = seen.page.evaluate(
            """cases => cases.map(([scenes, shots]) => lettersOf(
                scenes, shots.map((shot) => ({ ...shot, setting: shot.setting ?? undefined })),
            ).map((letter) => letter ?? null))""",
            cases,
        )
        assert actual == expected
        numbers = [0, 25, 26, 51, 52, 701, 702]
        assert seen.page.evaluate("numbers => numbers.map(letterOf)", numbers) == [
            "A",
            "Z",
            "AA",
            "AZ",
            "BA",
            "ZZ",
            "AAA",
        ]
    assert any("A" in letters for letters in expected)


def test_a_letter_lights_up_all_scenes_in_its_place(browser: Browser, tmp_path: Path) -> None:
    with opened_page(browser, tmp_path, with_places([0, 1, 0, 2, 1, 0])) as seen:
        page = seen.page
        letters = page.locator(".setting:visible")
        assert letters.all_text_contents() == ["A", "B", "A", "B", "A"]
        lit = "marks => marks.map((mark) => Number(mark.dataset.scene))"

        def shown_lit() -> tuple[list[str], list[int]]:
            page.wait_for_timeout(100)  # the timeline is drawn with the next frame
            return page.locator(".scene.lit .number").all_text_contents(), page.locator(
                ".lit[data-scene]"
            ).evaluate_all(lit)

        letters.nth(1).click()
        assert shown_lit() == (["2", "5"], [1, 4])
        assert page.locator("#status").text_content() == "In place B: scenes 2, 5."
        assert letters.nth(3).get_attribute("aria-pressed") == "true"
        press(page, "a")  # the selected scene is the first
        assert shown_lit() == (["1", "3", "6"], [0, 2, 5])
        press(page, "a")
        assert shown_lit() == ([], [])
        press(page, "n", "n", "n", "a")
        assert page.locator("#status").text_content() == "No other scene seems to be in this place."
        assert seen.complaints == []


def test_letters_follow_corrections_and_are_saved(browser: Browser, tmp_path: Path) -> None:
    scenes = with_places([0, 1, 2, 1])
    with opened_page(browser, tmp_path, scenes) as seen:
        page = seen.page
        assert page.locator(".setting:visible").all_text_contents() == ["B", "B"]
        press(page, "ArrowRight", "s")  # a new scene begins with the second shot, in the first place
        assert page.locator(".setting:visible").all_text_contents() == ["A", "A", "B", "B"]
        corrected = read_scene_list(saved(page, tmp_path))
        assert [scene.setting for scene in corrected.scenes] == ["A", "A", "B", None, "B"]
        assert [shot.setting for shot in corrected.shots] == [shot.setting for shot in scenes.shots]
        assert '"setting": "A"' in (tmp_path / "scenes.json").read_text()
        press(page, "Control+z")
        assert page.locator(".setting:visible").all_text_contents() == ["B", "B"]


def test_a_video_without_places_has_no_letters(browser: Browser, tmp_path: Path) -> None:
    with opened_page(browser, tmp_path, pages.invented(10)) as seen:
        assert seen.page.locator(".setting:visible").count() == 0
        assert seen.complaints == []
