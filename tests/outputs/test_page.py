"""The page as a file: self-contained, safe with any names, and of limited size.

What it does in a browser stands in `tests/browser/test_page_in_chromium.py`.
"""

from __future__ import annotations

import json
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
from pipelines.outputs.page import TrueEnds, save_page
from pipelines.outputs.page.thumbnails import BUDGET, page_images
from pipelines.scenes import SceneList
from tests import pages
from tests.pages import HOSTILE, Elements


def hostile() -> SceneList:
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
    truth = TrueEnds((0,), (1.5,), 1.0, HOSTILE)
    elements = made(tmp_path / "page.html", scenes, pages.noise(6), truth=truth, save_as=HOSTILE)
    harmless = made(tmp_path / "2.html", pages.invented(6), pages.noise(6), truth=replace(truth, source="truth"))
    tags = [tag for tag, _ in elements.found]
    # One more setting is a row of three more elements.
    assert tags.count("div") == [tag for tag, _ in harmless.found].count("div") + 1
    assert tags.count("img") == [tag for tag, _ in harmless.found].count("img")
    assert not any(name.startswith("on") for _, given in elements.found for name in given)
    data = json.loads(elements.texts["data"])
    assert data["file"] == json.loads(json.dumps(scenes.to_dict()))
    assert data["file"]["scenes"][0]["name"] == HOSTILE
    assert data["truth"]["source"] == HOSTILE


def test_the_address_of_the_video_is_relative_to_the_page(tmp_path: Path) -> None:
    video = tmp_path / "videos" / "a: b #1 50%.mp4"
    elements = made(tmp_path / "pages" / "page.html", pages.invented(3), video=video)
    data = json.loads(elements.texts["data"])
    assert data["video"]["source"] == "./../videos/a%3A%20b%20%231%2050%25.mp4"


def test_images_are_in_the_order_of_the_shots(tmp_path: Path) -> None:
    given = pages.noise(5)
    elements = made(tmp_path / "page.html", pages.invented(5), given)
    data = json.loads(elements.texts["data"])
    assert data["images"] == {"type": "image/webp", "width": 64, "height": 36}
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
