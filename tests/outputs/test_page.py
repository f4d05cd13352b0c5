"""The page, and the page of many videos, as files: self-contained, safe with any names, and of limited size.

What it does in a browser stands in `tests/browser/test_page_in_chromium.py`.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pipelines.errors import BasslError
from pipelines.models.scenes.scene_ends import choose_scenes
from pipelines.outputs.images import BUDGET, page_images
from pipelines.outputs.page import save_index, save_page, shows
from pipelines.progress import VideoResult
from pipelines.scenes import SceneData
from pipelines.settings import Grouping
from tests import pages
from tests.pages import HOSTILE, Elements


def hostile() -> SceneData:
    plain = pages.invented(6, name=HOSTILE.replace("/", "\\"))
    first, *others = plain.scenes
    return replace(
        plain, settings={**plain.settings, HOSTILE: [HOSTILE]}, scenes=(replace(first, name=HOSTILE), *others)
    )


def made(path: Path, *given: Any, **options: Any) -> Elements:
    save_page(path, *given, **options)
    return Elements(path.read_text("utf-8"))


def test_the_page_fetches_nothing(tmp_path: Path) -> None:
    elements = made(tmp_path / "page.html", pages.invented(6), pages.noise(6), tmp_path / "video.mp4")
    addresses = [value for _, given in elements.found for name, value in given.items() if name in ("src", "href")]
    assert addresses == ["data:,"]
    assert not {tag for tag, _ in elements.found} & {"iframe", "object", "embed", "base"}
    assert "url(" not in elements.texts["style"]
    assert "@import" not in elements.texts["style"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", elements.texts["script"])


def test_the_content_security_policy_allows_only_the_embedded_script_and_style(tmp_path: Path) -> None:
    elements = made(tmp_path / "page.html", pages.invented(6))
    (policy,) = [given["content"] for _, given in elements.found if given.get("http-equiv")]
    rules = dict(rule.split(" ", 1) for rule in (policy or "").split("; "))
    assert rules["default-src"] == "'none'"
    for kind in ("script", "style"):
        digest = b64encode(sha256(elements.texts[kind].encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
    assert "http" not in (policy or "")


def test_names_are_shown_as_text_only(tmp_path: Path) -> None:
    scenes = hostile()
    elements = made(tmp_path / "page.html", scenes, pages.noise(6), save_as=HOSTILE)
    harmless = made(tmp_path / "2.html", pages.invented(6), pages.noise(6))
    tags = [tag for tag, _ in elements.found]
    # One more setting is a row of three more elements.
    assert tags.count("div") == [tag for tag, _ in harmless.found].count("div") + 1
    assert tags.count("img") == [tag for tag, _ in harmless.found].count("img")
    assert not any(name.startswith("on") for _, given in elements.found for name in given)
    data = json.loads(elements.texts["data"])
    assert data["file"] == json.loads(json.dumps(scenes.to_dict()))
    assert data["file"]["scenes"][0]["name"] == HOSTILE


def test_the_address_of_the_video_is_relative_to_the_page(tmp_path: Path) -> None:
    video = tmp_path / "videos" / "a: b #1 50%.mp4"
    elements = made(tmp_path / "pages" / "page.html", pages.invented(3), video=video)
    data = json.loads(elements.texts["data"])
    assert data["video"]["source"] == "./../videos/a%3A%20b%20%231%2050%25.mp4"


def test_on_another_drive_of_windows_the_address_and_the_path_of_the_video_are_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def relpath(path: Path, start: Path) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr(os.path, "relpath", relpath)
    video = tmp_path / "a: b.mp4"
    data = json.loads(made(tmp_path / "page.html", pages.invented(3), video=video).texts["data"])
    assert data["video"]["source"] == video.as_uri()
    scenes = pages.invented(3)
    scenes = replace(scenes, video=replace(scenes.video, path=str(video)))
    assert scenes.to_dict(tmp_path / "results")["video"]["relative_path"] == str(video)


def test_images_are_in_the_order_of_the_shots(tmp_path: Path) -> None:
    given = pages.noise(5)
    elements = made(tmp_path / "page.html", pages.invented(5), given)
    data = json.loads(elements.texts["data"])
    assert data["images"] == {"type": "image/webp", "width": 64, "height": 36, "sides": []}
    for image, encoded in zip(given, elements.texts["images"].split("\n"), strict=True):
        before, after = (Image.open(BytesIO(content)).convert("RGB") for content in (image, b64decode(encoded)))
        assert after.size == (64, 36)
        differences = [abs(a - b) for a, b in zip(before.tobytes(), after.tobytes(), strict=True)]
        assert sum(differences) / len(differences) < 40  # images of other noise are 64 apart on average


def test_more_or_fewer_images_than_shots_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BasslError, match="3 images for 4 shots"):
        save_page(tmp_path / "page.html", pages.invented(4), pages.noise(3))
    assert list(tmp_path.iterdir()) == []


def test_pages_with_more_shots_have_smaller_images() -> None:
    given = pages.noise(8, 320, 180)
    fine, small = page_images(given), page_images(given, budget=8 * 20_000)
    assert (fine.width, fine.height) == (320, 180)
    assert small.width < 320
    assert sum(map(len, small.encoded)) <= 8 * 20_000
    assert small.height == round(small.width * 180 / 320)
    # Three thousand shots of noise, the worst there is, fit at a width of 96 or more.
    assert 3000 * len(page_images(given, budget=8 * BUDGET // 3000).encoded[0]) < 22e6


def test_images_of_tall_videos_are_at_most_twice_as_high_as_wide() -> None:
    (tall,) = ([image] for image in pages.noise(1, 30, 200))
    assert (page_images(tall).width, page_images(tall).height) == (30, 60)


# --- the page of many videos ----------------------------------------------------------------------------------------


def test_a_strip_has_the_scenes_of_a_video_at_their_times(tmp_path: Path) -> None:
    scenes = pages.invented(40)
    save_page(tmp_path / "one.html", scenes, pages.noise(40))
    save_page(tmp_path / "two: #2.html", pages.invented(6, seed=1, name="two.mp4"))
    save_index(tmp_path / "index.html", [tmp_path / "one.html", tmp_path / "two: #2.html"])
    elements = Elements((tmp_path / "index.html").read_text())
    links = [attributes["href"] for tag, attributes in elements.found if tag == "a"]
    count = len(scenes.scenes)
    assert links[: count + 1] == ["./one.html", *(f"./one.html#scene-{i}" for i in range(1, count + 1))]
    assert links[count + 1] == "./two%3A%20%232.html"
    strips = [attributes for tag, attributes in elements.found if tag == "rect"]
    for scene, band in zip(scenes.scenes, strips, strict=False):
        assert float(band["x"] or "") == pytest.approx(1200 * scene.start / scenes.video.duration, abs=0.01)
    assert f"Scene 1, 00:00:00.000 – {scenes.scenes[0].end_timecode}" in elements.texts["title"]


def test_the_page_of_many_videos_names_those_that_failed_and_marks_those_that_were_corrected(tmp_path: Path) -> None:
    scenes = pages.invented(6)
    named = replace(scenes.scenes[0], name="<Begin>")
    for name, first in (("as_predicted", scenes.scenes[0]), ("corrected", named)):
        predicted = {**Grouping().resolved(), "threshold": 0.5}
        by_rule = choose_scenes(scenes.shots, **predicted)
        kept = (replace(by_rule[0], name=first.name), *by_rule[1:])
        save_page(tmp_path / f"{name}.html", replace(scenes, settings=predicted, scenes=kept))
    failed = VideoResult("bad", Path("<bad>.mp4"), Path("bad.html"), "failed", error="<bad>.mp4: is empty")
    save_index(tmp_path / "index.html", [tmp_path / "as_predicted.html", tmp_path / "corrected.html"], [failed])
    elements = Elements((tmp_path / "index.html").read_text())
    assert "<bad>.mp4: <bad>.mp4: is empty" in elements.texts["li"]
    marks = [attributes["data-text"] for _, attributes in elements.found if "data-text" in attributes]
    assert [(mark or "").split()[-1] == "corrected" for mark in marks] == [False, False, True]
    assert "1 corrected · 1 failed" in " ".join(elements.texts["p"].split())


def test_the_total_length_may_exceed_100_hours(tmp_path: Path) -> None:
    scenes = pages.invented(6)
    *others, last = scenes.shots
    long = replace(scenes, shots=(*others, replace(last, end=60 * 3600.0)))
    for name in ("one", "two"):
        save_page(tmp_path / f"{name}.html", long)
    save_index(tmp_path / "index.html", [tmp_path / "one.html", tmp_path / "two.html"])
    text = (tmp_path / "index.html").read_text()
    assert "120:00:00<" in text
    assert text.count("60:00:00<") == 2


def test_a_scene_shows_its_longest_shot(tmp_path: Path) -> None:
    scenes, images = pages.invented(6), pages.noise(6, 320, 180)
    save_page(tmp_path / "one.html", scenes, images)
    save_index(tmp_path / "index.html", [tmp_path / "one.html"])
    actual = [
        attributes["href"] or ""
        for tag, attributes in Elements((tmp_path / "index.html").read_text()).found
        if tag == "image"
    ]
    assert len(actual) == len(scenes.scenes)
    for scene, address in zip(scenes.scenes, actual, strict=True):
        image = Image.open(BytesIO(b64decode(address.removeprefix("data:image/webp;base64,")))).convert("L")
        shots = scenes.shots[scene.start_shot : scene.end_shot]
        longest = max(shots, key=lambda shot: shot.end - shot.start).index
        # Noise of no two images is alike, also when they are small.
        distances = [
            sum(abs(a - b) for a, b in zip(image.tobytes(), other.tobytes(), strict=True))
            for other in (Image.open(BytesIO(one)).convert("L").resize(image.size) for one in images)
        ]
        assert distances.index(min(distances)) == longest


def test_names_on_the_page_of_videos_are_shown_as_text_only_and_nothing_is_fetched(tmp_path: Path) -> None:
    save_page(tmp_path / "bad.html", hostile(), pages.noise(6))
    save_page(tmp_path / "good.html", pages.invented(6), pages.noise(6))
    kinds = []
    for name in ("bad", "good"):
        save_index(tmp_path / "index.html", [tmp_path / f"{name}.html"])
        elements = Elements((tmp_path / "index.html").read_text("utf-8"))
        kinds.append([tag for tag, _ in elements.found])
        assert not any(key.startswith("on") for _, attributes in elements.found for key in attributes)
        (policy,) = [attributes["content"] or "" for _, attributes in elements.found if attributes.get("http-equiv")]
        style, script = (
            b64encode(sha256(elements.texts[part].encode()).digest()).decode() for part in ("style", "script")
        )
        parts = ["default-src 'none'", f"style-src 'sha256-{style}'", f"script-src 'sha256-{script}'"]
        assert policy.split("; ")[:3] == parts
        assert "img-src data:" in policy
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("spoilt", ["", "<html></html>", "cut"])
def test_a_file_that_is_not_a_page_is_refused(tmp_path: Path, spoilt: str) -> None:
    page = tmp_path / "one.html"
    save_page(page, pages.invented(3), pages.noise(3))
    page.write_text(page.read_text().replace(json.dumps("shots"), "") if spoilt == "cut" else spoilt)
    with pytest.raises(BasslError, match=r"one\.html: is not a page by bassl"):
        save_index(tmp_path / "index.html", [page])
    assert not (tmp_path / "index.html").exists()


def test_a_page_with_countless_beginnings_of_its_data_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<script id="data">{}</script>x' * 200_000)
    with pytest.raises(BasslError, match=r"page\.html: is not a page by bassl"):
        save_index(tmp_path / "index.html", [page])
    assert not shows(page, pages.invented(4))
