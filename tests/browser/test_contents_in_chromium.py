"""What is in a movie, from one command: its page, and its scenes in a vector store."""

from __future__ import annotations

import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.datasets.synthetic import SyntheticVideoSettings, write_video
from pipelines.scenes import SceneData
from recipes import documentation
from tests import videos
from tests.browser.opening import opened
from tests.command import Bassl, bassl_process
from tests.video.test_segments import RATE, cards, scrolling

CREDITS = 8  # seconds, at each end
LINES = {CREDITS + 1: "The harbor is cold.", CREDITS + 3: "Nobody sails from this harbor.", CREDITS + 16: "Go home!"}


@pytest.fixture(scope="module")
def movie(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A movie with opening and end credits, sound and embedded subtitles, whose last scene is in the place of the
    first; predicted by the command, with its page and its scenes for search."""
    folder = tmp_path_factory.mktemp("movie")
    settings = SyntheticVideoSettings(
        seed=1,
        scenes=4,
        shots_per_scene=(4, 6),
        frame_rate=RATE,
        shot_seconds=(1, 2),
        width=320,
        height=180,
        dissolves=0,
    )
    plan = write_video(folder / "story.mp4", settings)
    story = videos.decoded(folder / "story.mp4")
    first_scene = story[: plan.shots[plan.scene_of_shot.index(1)].start_frame]
    seconds = (len(story) + len(first_scene)) / RATE + 2 * CREDITS
    images = chain(cards(CREDITS), story, first_scene, scrolling(CREDITS))
    plain = videos.write_video(folder / "plain.mkv", images, RATE, sound_seconds=seconds)
    (folder / "words.srt").write_text(
        "\n".join(f"{at}\n00:00:{at:02},000 --> 00:00:{at + 1:02},000\n{text}\n" for at, text in LINES.items())
    )
    videos.remuxed(folder / "movie.mkv", plain, folder / "words.srt")
    for command in ("predict movie.mkv --report", "save-images movie.mkv", "export movie.mkv --to jsonl --vectors"):
        run = bassl_process(command, folder)
        assert run.code == 0, run.err
    return folder


@pytest.fixture(scope="module")
def scenes(movie: Path) -> SceneData:
    return read_scene_list(movie / "movie.scenes.json")


def test_the_page_of_a_movie_shows_dialogue_names_and_credits(movie: Path, scenes: SceneData, browser: Browser) -> None:
    assert scenes.video.sound_tracks == 1
    with opened(browser, movie / "movie.scenes.html") as seen:
        page = seen.page
        said = page.locator(".scene .lines summary").all_text_contents()
        assert " ".join(said).split() == " ".join(LINES.values()).split()
        spoken = page.locator(".scene", has_text="harbor is cold").first
        assert "harbor" in str(spoken.locator(".name").text_content())
        assert "automatic" in str(spoken.locator(".name").get_attribute("class"))
        assert page.locator(".scene .name").first.text_content() == "Opening credits"
        kinds = page.locator("#track .segment").evaluate_all("marks => marks.map((mark) => mark.classList[1])")
        assert sorted(kind for kind in kinds if kind.endswith("credits")) == ["end_credits", "opening_credits"]
        assert seen.complaints == []


@pytest.mark.parametrize("store", ["chromadb", "qdrant_client"])
def test_the_documented_program_finds_scenes_of_the_movie_in_a_vector_store(
    store: str, movie: Path, scenes: SceneData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(store, reason=f"{store} is not installed: pip install {store}")
    shutil.copy(movie / "movie.scenes.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)
    page = (documentation.HOME / "docs" / "search.md").read_text()
    (program,) = [block for block in documentation.blocks(page, "python") if store in block]
    names: dict[str, Any] = {}
    exec(program, names)
    assert names["similar"][0]["start"] == scenes.scenes[0].start
    assert len(names["similar"]) == 3
    spoken = [scene.start for scene in scenes.scenes if any("harbor" in line.text for line in scenes.lines_of(scene))]
    assert sorted(row["start"] for row in names["spoken"]) == spoken


def test_the_table_of_scenes_has_names(movie: Path, scenes: SceneData, bassl: Bassl) -> None:
    shutil.copy(movie / "movie.scenes.json", "movie.scenes.json")
    header, *rows = bassl("regroup", "movie.scenes.json").out.splitlines()
    assert header.split()[-1] == "name"
    assert [row[header.index("name") :].strip() for row in rows] == [scene.name or "" for scene in scenes.scenes]
    assert rows[-1].split()[-2:] == ["End", "credits"]
