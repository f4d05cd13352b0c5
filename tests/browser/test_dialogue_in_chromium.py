"""Subtitles, automatic names and segments such as credits: on the page, in search and reviews, and in what is saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.models.scenes import with_automatic_names
from pipelines.scenes import Line, SceneData, Segment, without_short
from pipelines.stages.scene_list import load_scenes
from tests import pages
from tests.browser.opening import box_of, ends_shown, opened_page, press, saved, slide

HOSTILE = "<img src=x onerror=alert(1)> </script> & <b>"


def spoken(scenes: SceneData) -> SceneData:
    """One line in each shot: its number, and in the third one markup."""
    texts = [HOSTILE if shot.index == 2 else f"This is shot {shot.index + 1}!" for shot in scenes.shots]
    lines = [Line(shot.start + 0.1, shot.end, text) for shot, text in zip(scenes.shots, texts, strict=True)]
    return replace(scenes, lines=tuple(lines))


@pytest.fixture(scope="module")
def scenes() -> SceneData:
    return spoken(pages.invented(40))


@pytest.fixture
def view(window: BrowserContext, tmp_path: Path, scenes: SceneData) -> Iterator[Page]:
    with opened_page(window, tmp_path, scenes) as seen:
        yield seen.page


def test_each_scene_shows_its_lines_as_text(view: Page, scenes: SceneData) -> None:
    for scene in scenes.scenes:
        own = view.locator(".scene").nth(scene.index).locator(".lines")
        texts = [line.text for line in scenes.lines_of(scene)]
        assert own.locator("summary").text_content() == " ".join(texts)
        assert [item.split("\n")[-1].lstrip("0123456789:") for item in own.locator("li").all_text_contents()] == texts
    assert view.locator(".scene img[src=x]").count() == 0


def test_search_finds_scenes_by_what_is_said_and_opens_their_lines(view: Page, scenes: SceneData) -> None:
    shot = 20
    view.fill("#filter-name", f"is SHOT {shot + 1}!")
    (expected,) = [scene.index + 1 for scene in scenes.scenes if scene.start_shot <= shot < scene.end_shot]
    visible = view.locator(".scene:visible")
    assert visible.locator(".number").all_text_contents() == [str(expected)]
    assert visible.locator(".lines").get_attribute("open") is not None
    view.fill("#filter-name", "")
    assert view.locator(".scene:visible").count() == len(scenes.scenes)
    assert view.locator(".lines[open]").count() == 0


def test_a_review_shows_what_is_said_beside_the_keyframes(view: Page) -> None:
    view.keyboard.press("r")
    shots = view.locator("#review-shots li").all()
    assert len(shots) == 8
    for shot in shots:
        number = shot.locator(".caption b").text_content()
        assert shot.locator(".said").text_content() in (f"This is shot {number}!", HOSTILE)


def test_lines_follow_corrections_into_the_saved_file(view: Page, scenes: SceneData, tmp_path: Path) -> None:
    assert read_scene_list(saved(view, tmp_path)).lines == scenes.lines
    view.locator(".scene .merge:visible").first.click()
    after = read_scene_list(saved(view, tmp_path))
    assert after.lines == scenes.lines
    assert after.lines_of(after.scenes[0]) == scenes.lines_of(scenes.scenes[0]) + scenes.lines_of(scenes.scenes[1])
    assert view.locator(".scene").first.locator(".lines li").count() == len(after.lines_of(after.scenes[0]))


def test_an_automatic_name_is_marked_until_a_person_gives_another_and_goes_when_more_than_half_of_its_scene_changes(
    window: BrowserContext, tmp_path: Path
) -> None:
    plain = with_automatic_names(spoken(pages.invented(40)))
    named = tuple(replace(scene, name=f"auto {scene.index}", named_by="words") for scene in plain.scenes)
    with opened_page(window, tmp_path, replace(plain, scenes=named)) as seen:
        page = seen.page
        assert page.locator(".name.automatic").all_text_contents() == [f"auto {i}" for i in range(len(named))]
        press(page, "Home", "e", "Enter")  # leaves it as it is
        assert page.is_disabled("#undo")
        press(page, "e")
        page.keyboard.type("The chase")
        press(page, "Enter")
        assert "automatic" not in str(page.locator(".scene .name").first.get_attribute("class"))
        page.locator(".scene .merge:visible").nth(1).click()  # the second and third: 16 shots and 1
        assert page.inner_text("#status") == "Merged scenes 2 and 3. Automatic names that no longer fit: auto 2."
        page.locator(".scene .merge:visible").nth(2).click()  # 4 shots and 7: each changes by more than half
        after = [(scene.name, scene.named_by) for scene in read_scene_list(saved(page, tmp_path)).scenes]
    assert after == [("The chase", None), ("auto 1", "words"), (None, None), ("auto 5", "words")]


def test_lines_of_dropped_scenes_are_kept_in_the_saved_file(
    window: BrowserContext, scenes: SceneData, tmp_path: Path
) -> None:
    settings = {**scenes.settings, "drop_short": True, "min_scene": 20}
    with opened_page(
        window, tmp_path, replace(scenes, scenes=without_short(scenes.scenes, 20), settings=settings)
    ) as seen:
        assert read_scene_list(saved(seen.page, tmp_path)).lines == scenes.lines


def test_segments_are_on_the_timeline_and_saved_and_scenes_are_found_beside_them(
    window: BrowserContext, tmp_path: Path
) -> None:
    plain = pages.invented(40)
    first, credits, last = plain.shots[0], plain.shots[-3], plain.shots[-1]
    segments = (
        Segment("black", first.start_frame, first.start_frame + 12, first.start, first.start + 0.5),
        Segment("end_credits", credits.start_frame, last.end_frame, credits.start, last.end),
        Segment("black", last.start_frame, last.end_frame, last.start, last.end),
    )
    scenes = replace(plain, segments=segments)
    scenes.save(tmp_path / "result.json")
    with opened_page(window, tmp_path, scenes) as seen:
        page = seen.page
        kinds = page.locator("#track .segment").evaluate_all("marks => marks.map((mark) => mark.classList[1])")
        assert kinds == ["end_credits", "black", "black"]
        track, strip = box_of(page.locator("#track")), box_of(page.locator("#track .end_credits"))
        share = segments[1].start / scenes.video.duration
        assert strip["x"] - track["x"] == pytest.approx(share * track["width"], abs=2)
        assert str(page.text_content("#readout")).endswith("black")
        press(page, "End")
        assert str(page.get_attribute("#track", "aria-valuetext")).endswith("end credits, black")
        legend = page.locator(".timeline .legend li").all_text_contents()
        assert [text for text in legend if text in ("black", "silence", "color bars", "end credits")] == [
            *("black", "end credits")
        ]
        for threshold in (0.1, 0.5, 0.95):
            slide(page, threshold)
            regrouped = load_scenes(tmp_path / "result.json").regroup(threshold=threshold)
            assert ends_shown(page) == [scene.end_shot - 1 for scene in regrouped.scenes]
        assert 36 in ends_shown(page), "a scene ends before the credits"
        assert read_scene_list(saved(page, tmp_path)).segments == segments
