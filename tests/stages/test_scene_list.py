"""`SceneList`: what programs get from `predict`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from bassl import SceneList, load_scenes, predict
from pipelines.outputs.exports import FORMATS
from pipelines.outputs.images import thumbnail
from tests.test_scenes import scene_list as scene_data
from tests.videos import FRAMES, images


@pytest.fixture
def scenes() -> SceneList:
    """Return three scenes of two, two and one of five shots."""
    jpegs = tuple(thumbnail(image) for image in [*images(FRAMES, ())][:5])
    return SceneList(**vars(scene_data()), thumbnails=jpegs)


def test_it_is_a_sequence_of_scenes_that_prints_itself_on_one_line(scenes: SceneList) -> None:
    assert len(scenes) == 3
    assert list(scenes) == list(scenes.scenes)
    assert (scenes[0], scenes[-1], scenes[1:]) == (scenes.scenes[0], scenes.scenes[2], scenes.scenes[1:])
    assert repr(scenes) == "SceneList('movie.mp4', 3 scenes, 5 shots, 00:00:10.000)"


def test_a_notebook_shows_a_row_with_images_for_each_scene(scenes: SceneList) -> None:
    first, *others = scenes.scenes
    page = replace(scenes, scenes=(replace(first, name="<b>The chase"), *others))._repr_html_()
    rows = re.findall("<tr><td>(.*?)</tr>", page)
    assert [row.count('<img src="data:image/jpeg;base64,/9j/') for row in rows] == [2, 2, 1]
    assert re.findall('alt="shot ([0-9])"', page) == list("12345")
    assert "&lt;b&gt;The chase" in rows[0]
    assert "00:00:04.000" in rows[0]
    without = replace(scenes, thumbnails=())
    page = without._repr_html_()
    assert ("<img" in page, page.count("<tr><td>")) == (False, 3)
    assert (scenes, scenes.to_dict()) == (without, without.to_dict()), "they are no part of the result"


def test_a_data_frame_has_a_row_for_each_scene_or_shot(scenes: SceneList) -> None:
    frame = scenes.to_dataframe()
    assert isinstance(frame, pd.DataFrame)
    assert frame["start_timecode"].tolist() == [scene.start_timecode for scene in scenes]
    assert frame["duration"].tolist() == [4.0, 4.0, 2.0]
    assert frame.index.tolist() == [0, 1, 2]
    shots = scenes.to_dataframe(shots=True)
    assert shots["score"].tolist() == [shot.score for shot in scenes.shots]
    assert shots["transition"].tolist() == [None] * 5


def test_regroup_gives_other_scenes_from_the_same_scores(scenes: SceneList) -> None:
    regrouped = scenes.regroup(scenes=2)
    assert isinstance(regrouped, SceneList)
    assert ([scene.end_shot for scene in regrouped], len(scenes)) == ([2, 5], 3)
    assert (regrouped.settings["scenes"], regrouped.thumbnails) == (2, scenes.thumbnails)
    with pytest.raises(TypeError, match="no option 'treshold'"):
        scenes.regroup(treshold=0.4)


def test_methods_read_and_write_what_commands_do(
    video: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = predict(video, model=model, scenes=2)
    assert [jpeg[:2] for jpeg in result.thumbnails] == [b"\xff\xd8"] * len(result.shots)
    result.save("video.scenes.json")
    for path in (video, "video.scenes.json"):
        loaded = load_scenes(path)
        assert isinstance(loaded, SceneList)
        assert (loaded, loaded.thumbnails) == (result, ())
    exported = result.export("movie.edl")
    assert ([path.name for path in exported.paths], exported.listed) == (["movie.edl"], 2)
    assert Path("movie.edl").read_text() == FORMATS["edl"].content(result).text
    assert [clip.path.name[-7:] for clip in result.split("clips", exact=True)] == ["001.mp4", "002.mp4"]
    assert [image.scene for image in result.save_images("images", images=1)] == [0, 1]
    assert len([*Path("images").glob("[!.]*")]) == 2
    assert result.report() == Path("video.scenes.html")
    assert Path("video.scenes.html").is_file()
