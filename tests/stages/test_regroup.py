"""`regroup`: scenes for other settings, computed from the stored scores."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.datasets.scene_files import read_scene_list
from pipelines.errors import BasslError
from pipelines.options import with_options
from pipelines.scenes import SceneList, Transition
from pipelines.stages.regroup import regroup
from pipelines.stages.settings import RegroupSettings
from tests.command import Bassl
from tests.outputs.exporting import named, scene_list
from tests.small_stores import refusal

SCORES = (0.9, 0.2, 0.6, 0.4, 0.8, 0.1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Six shots of one second with known scores, in three scenes."""
    listed = scene_list([25] * 6, [0, 4, 5])
    shots = [replace(shot, score=score) for shot, score in zip(listed.shots, SCORES, strict=True)]
    shots[0] = replace(shots[0], transition=Transition("dissolve", 20, 30, 0.8, 1.2))
    settings = {"bassl": "0.1.0", "model_id": "tiny", "detector": "content", "threshold": 0.7}
    settings["min_scene"] = 0.0
    scenes = named(replace(listed, shots=tuple(shots), settings=settings), "first", "second", "third")
    scenes.save(tmp_path / "scenes.json")
    return tmp_path / "scenes.json"


def lengths(result: SceneList) -> list[int]:
    return [scene.end_shot - scene.start_shot for scene in result.scenes]


def test_a_lower_threshold_gives_more_scenes(file: Path) -> None:
    assert lengths(regroup(file, threshold=0.5)) == [1, 2, 2, 1]
    assert lengths(regroup(file, threshold=0.3)) == [1, 2, 1, 1, 1]


def test_a_given_number_of_scenes_takes_the_most_probable_ends(file: Path) -> None:
    assert lengths(regroup(file, scenes=2)) == [1, 5]


def test_no_scene_is_shorter_than_the_minimum(file: Path) -> None:
    assert lengths(regroup(file, threshold=0.3, min_scene=3.0)) == [3, 3]


def test_settings_that_are_not_given_come_from_the_file(file: Path) -> None:
    result = regroup(file)
    assert lengths(result) == [1, 4, 1]
    assert result.settings["threshold"] == 0.7
    assert result.settings["detector"] == "content"


def test_scenes_dropped_as_too_short_stay_dropped(file: Path, tmp_path: Path) -> None:
    short = with_options(RegroupSettings, output=tmp_path / "short.json", threshold=0.3, min_scene=1.5, drop_short=True)
    dropped = regroup(file, short)
    assert lengths(regroup(short.run.output)) == lengths(dropped)
    joined = regroup(file, short, output=tmp_path / "joined.json", drop_short=False)
    assert lengths(regroup(short.run.output, drop_short=False)) == lengths(joined) != lengths(dropped)


def test_scenes_with_the_same_shots_keep_their_names(file: Path) -> None:
    assert [scene.name for scene in regroup(file, threshold=0.5).scenes] == [
        "first",
        None,
        None,
        "third",
    ]


def test_the_result_is_written_beside_the_unchanged_input(file: Path) -> None:
    before = file.read_bytes()
    result = regroup(file, threshold=0.5)
    assert file.read_bytes() == before
    assert read_scene_list(file.with_name("scenes.regrouped.json")) == result


def test_the_input_is_never_overwritten(file: Path) -> None:
    with pytest.raises(BasslError, match="is an input of this command; name another file"):
        regroup(file, output=file)


def corrected(path: Path, settings: dict[str, object], *names: str | None) -> bytes:
    """The file as corrected by hand, with more settings and with names of its first scenes."""
    found = read_scene_list(path)
    scenes = [replace(scene, name=name) for scene, name in zip(found.scenes, names, strict=False)]
    changed = (*scenes, *found.scenes[len(scenes) :])
    replace(found, settings={**found.settings, **settings}, scenes=changed).save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("settings", "names"), [({"edited_by_hand": True}, ()), ({}, ("first", "mine"))], ids=["edited", "named"]
)
def test_a_hand_corrected_result_is_replaced_only_with_overwrite(
    file: Path, settings: dict[str, object], names: tuple[str, ...]
) -> None:
    other = with_options(RegroupSettings, threshold=0.3)
    regroup(file, threshold=0.5)
    output = file.with_name("scenes.regrouped.json")
    before = corrected(output, settings, *names)
    refusal(lambda: regroup(file, other), output, "corrected by hand", "--overwrite", error=BasslError)
    assert output.read_bytes() == before
    result = regroup(file, other, overwrite=True)
    assert read_scene_list(output) == result
    assert lengths(regroup(file)) == [1, 4, 1], "its own result is nobody's work"


def test_the_regrouped_result_of_a_corrected_file_does_not_count_as_corrected(file: Path) -> None:
    corrected(file, {"edited_by_hand": True})
    assert "edited_by_hand" not in regroup(file).settings
    assert lengths(regroup(file, scenes=2)) == [1, 5]


def test_scenes_of_another_video_are_replaced_only_with_overwrite(file: Path) -> None:
    found = read_scene_list(file)
    output = file.with_name("scenes.regrouped.json")
    replace(found, video=replace(found.video, id="other"), scenes=regroup(file).scenes).save(output)
    refusal(lambda: regroup(file), output, "of another video", error=BasslError)
    regroup(file, overwrite=True)


def test_impossible_settings_give_a_one_line_error(file: Path) -> None:
    with pytest.raises(ValueError, match="threshold must lie between 0 and 1"):
        with_options(RegroupSettings, threshold=1.5)
    with pytest.raises(BasslError, match="6 shot"):
        regroup(file, scenes=7)


def test_the_command_prints_the_scenes_and_writes_them(file: Path, bassl: Bassl) -> None:
    file.rename("scenes.json")  # into the folder of `bassl`, where it is the default
    code, out, _ = bassl("regroup", "--threshold", "0.5", "-o", "out/other.json")
    assert code == 0
    assert len(out.splitlines()) == 5
    assert len(json.loads(Path("out/other.json").read_text())["scenes"]) == 4
    assert bassl("regroup").err == "3 scenes; wrote scenes.regrouped.json\n"


def test_dropping_short_scenes_needs_a_length(file: Path) -> None:
    refusal(lambda: regroup(file, drop_short=True), "--drop-short", "--min-scene", error=BasslError)


@pytest.mark.parametrize("name", ["nine.edl", "nine.csv"])
def test_another_format_is_refused(file: Path, name: str) -> None:
    with pytest.raises(BasslError, match=r"regroup writes a \.json; bassl export makes other formats"):
        regroup(file, output=file.with_name(name))
    assert not file.with_name(name).exists()


def test_stdout_gets_only_one_json_document(file: Path, bassl: Bassl) -> None:
    file.rename("scenes.json")  # into the folder of `bassl`, where it is the default
    code, out, _ = bassl("regroup", "--scenes", "2", "-o", "-", "--json")
    assert code == 0
    assert len(json.loads(out)["scenes"]) == 2
