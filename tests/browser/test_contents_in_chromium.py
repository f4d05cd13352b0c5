"""What is in a movie, from one command to its page."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from playwright.sync_api import BrowserContext

from pipelines.datasets.synthetic import SyntheticVideoSettings, write_video
from tests import videos
from tests.browser.opening import opened
from tests.command import Bassl
from tests.video.test_segments import RATE, cards, scrolling

CREDITS = 8  # seconds, at each end
LINES = {CREDITS + 1: "The harbor is cold.", CREDITS + 3: "Nobody sails from this harbor.", CREDITS + 16: "Go home!"}
STORY = SyntheticVideoSettings(
    seed=1, scenes=4, shots_per_scene=(4, 6), frame_rate=RATE, shot_seconds=(1, 2), width=320, height=180, dissolves=0
)


def test_the_page_of_a_movie_shows_dialogue_names_and_credits(window: BrowserContext, bassl: Bassl) -> None:
    write_video(Path("story.mp4"), STORY)
    story = videos.decoded(Path("story.mp4"))
    plain = videos.write_video(Path("plain.mkv"), chain(cards(CREDITS), story, scrolling(CREDITS)), RATE)
    cues = [f"{at}\n00:00:{at:02},000 --> 00:00:{at + 1:02},000\n{text}\n" for at, text in LINES.items()]
    Path("words.srt").write_text("\n".join(cues))
    videos.remuxed(Path("movie.mkv"), plain, Path("words.srt"))
    assert bassl("predict", "movie.mkv", "--report").code == 0
    with opened(window, Path("movie.scenes.html").absolute().as_uri()) as seen:
        page = seen.page
        said = page.locator(".scene .lines summary").all_text_contents()
        assert " ".join(said).split() == " ".join(LINES.values()).split()
        spoken = page.locator(".scene", has_text="harbor is cold").first
        assert "harbor" in str(spoken.locator(".name").text_content())
        assert "automatic" in str(spoken.locator(".name").get_attribute("class"))
        names = page.locator(".scene .name").all_text_contents()
        assert (names[0], names[-1]) == ("Opening credits", "End credits")
        kinds = page.locator("#track .segment").evaluate_all("marks => marks.map((mark) => mark.classList[1])")
        assert sorted(kind for kind in kinds if kind.endswith("credits")) == ["end_credits", "opening_credits"]
    header, *rows = bassl("regroup", "movie.scenes.json").out.splitlines()
    assert [row[header.index("name") :].strip() for row in rows] == names
