"""Segments on the page: black, credits and the like on the timeline, in words, and in what is saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.scenes import SceneData, Segment
from pipelines.stages.scene_list import load_scenes
from tests import pages
from tests.browser.opening import ends_shown, opened_page, press, saved, slide


def with_segments() -> SceneData:
    """Black at the beginning, and credits in the last three shots, with black in the last one."""
    scenes = pages.invented(40)
    first, credits, last = scenes.shots[0], scenes.shots[-3], scenes.shots[-1]
    segments = (
        Segment("black", first.start_frame, first.start_frame + 12, first.start, first.start + 0.5),
        Segment("end_credits", credits.start_frame, last.end_frame, credits.start, last.end),
        Segment("black", last.start_frame, last.end_frame, last.start, last.end),
    )
    return replace(scenes, segments=segments)


def test_segments_are_on_the_timeline_and_named_with_their_shots(browser: Browser, tmp_path: Path) -> None:
    scenes = with_segments()
    with opened_page(browser, tmp_path, scenes) as seen:
        page = seen.page
        kinds = page.locator("#track .segment").evaluate_all("marks => marks.map((mark) => mark.classList[1])")
        assert kinds == ["end_credits", "black", "black"]
        box, strip = page.locator("#track").bounding_box(), page.locator("#track .end_credits").bounding_box()
        assert box is not None
        assert strip is not None
        share = scenes.segments[1].start / scenes.video.duration
        assert abs(strip["x"] - box["x"] - share * box["width"]) < 2
        assert page.locator("#readout").text_content().endswith("black")  # type: ignore[union-attr]
        page.keyboard.press("End")
        assert page.locator("#track").get_attribute("aria-valuetext").endswith("end credits, black")  # type: ignore[union-attr]
        legend = page.locator(".timeline .legend li").all_text_contents()
        assert [text for text in legend if text in ("black", "silence", "color bars", "end credits")] == [
            *("black", "end credits")
        ]
        assert seen.complaints == []


def test_a_page_saves_the_segments_of_its_file_and_finds_scenes_beside_them(browser: Browser, tmp_path: Path) -> None:
    scenes = with_segments()
    scenes.save(tmp_path / "result.json")
    with opened_page(browser, tmp_path, scenes) as seen:
        for threshold in (0.1, 0.5, 0.95):
            slide(seen.page, threshold)
            regrouped = load_scenes(tmp_path / "result.json").regroup(threshold=threshold)
            assert ends_shown(seen.page) == [scene.end_shot - 1 for scene in regrouped.scenes]
        assert 36 in ends_shown(seen.page), "a scene ends before the credits"
        press(seen.page, *["Control+z"] * 3)
        seen.page.locator(".merge:visible").first.click()
        corrected = read_scene_list(saved(seen.page, tmp_path))
    assert corrected.segments == scenes.segments
    assert len(corrected.scenes) == len(scenes.scenes) - 1
