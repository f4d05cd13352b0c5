"""The page of many videos as a file: content, links, and safety with any names."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from pipelines.errors import BasslError
from pipelines.outputs.page import save_index, save_page
from tests import pages
from tests.pages import HOSTILE, Elements


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


def test_names_are_shown_as_text_only_and_nothing_is_fetched(tmp_path: Path) -> None:
    plain = pages.invented(6, name=HOSTILE.replace("/", "\\"))
    first, *others = plain.scenes
    save_page(tmp_path / "bad.html", replace(plain, scenes=(replace(first, name=HOSTILE), *others)), pages.noise(6))
    save_page(tmp_path / "good.html", pages.invented(6), pages.noise(6))
    kinds = []
    for name in ("bad", "good"):
        save_index(tmp_path / "index.html", [tmp_path / f"{name}.html"])
        elements = Elements((tmp_path / "index.html").read_text("utf-8"))
        kinds.append([tag for tag, _ in elements.found])
        assert not any(key.startswith("on") for _, attributes in elements.found for key in attributes)
        (policy,) = [attributes["content"] or "" for _, attributes in elements.found if attributes.get("http-equiv")]
        style = b64encode(sha256(elements.texts["style"].encode()).digest()).decode()
        assert policy.split("; ")[:3] == ["default-src 'none'", f"style-src 'sha256-{style}'", "img-src data:"]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("spoilt", ["", "<html></html>", "cut"])
def test_a_file_that_is_not_a_page_is_refused(tmp_path: Path, spoilt: str) -> None:
    page = tmp_path / "one.html"
    save_page(page, pages.invented(3), pages.noise(3))
    page.write_text(page.read_text().replace(json.dumps("shots"), "") if spoilt == "cut" else spoilt)
    with pytest.raises(BasslError, match=r"one\.html: is not a page by bassl"):
        save_index(tmp_path / "index.html", [page])
    assert not (tmp_path / "index.html").exists()
