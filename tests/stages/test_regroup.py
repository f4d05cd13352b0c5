"""`regroup`: scenes for other settings, computed from the stored scores."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.datasets.scene_files import read_scene_list
from pipelines.errors import BasslError
from pipelines.options import with_options
from pipelines.scenes import SceneData, Transition
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


def lengths(result: SceneData) -> list[int]:
    return [scene.end_shot - scene.start_shot for scene in result.scenes]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"threshold": 0.5}, [1, 2, 2, 1]),
        ({"threshold": 0.3}, [1, 2, 1, 1, 1]),
        ({"threshold": 0.3, "min_scene": 3.0}, [3, 3]),
        ({"scenes": 2}, [1, 5]),
        ({"max_scene": 2.0}, [1, 2, 2, 1]),
        ({"max_scene": 3.0, "min_scene": 2.0}, [3, 3]),
        ({}, [1, 4, 1]),
    ],
)
def test_scenes_follow_from_the_options_or_else_the_settings_in_the_file(
    file: Path, options: dict[str, Any], expected: list[int]
) -> None:
    result = regroup(file, **options)
    assert lengths(result) == expected
    assert (result.settings["threshold"], result.settings["detector"]) == (options.get("threshold", 0.7), "content")


def test_scenes_dropped_as_too_short_stay_dropped(file: Path, tmp_path: Path) -> None:
    short = with_options(RegroupSettings, output=tmp_path / "short.json", threshold=0.3, min_scene=1.5, drop_short=True)
    dropped = regroup(file, short)
    assert lengths(regroup(short.run.output)) == lengths(dropped)
    joined = regroup(file, short, output=tmp_path / "joined.json", drop_short=False)
    assert lengths(regroup(short.run.output, drop_short=False)) == lengths(joined) != lengths(dropped)


def test_the_longest_scene_stays_as_in_the_file_and_a_warning_tells_of_longer_shots(file: Path, tmp_path: Path) -> None:
    limited = regroup(file, max_scene=2.0, output=tmp_path / "limited.json")
    assert lengths(regroup(tmp_path / "limited.json", threshold=0.5)) == lengths(limited) == [1, 2, 2, 1]
    assert lengths(regroup(tmp_path / "limited.json", max_scene=0)) == [1, 4, 1]
    assert limited.warnings == ()
    (warning,) = regroup(file, max_scene=0.5).warnings
    assert warning.endswith("6 scenes (the first at 00:00:00.000) are longer than 0.5 s, because a shot is never cut")


def test_the_result_is_written_beside_the_unchanged_input_and_scenes_with_the_same_shots_keep_their_names(
    file: Path,
) -> None:
    before = file.read_bytes()
    result = regroup(file, threshold=0.5)
    assert file.read_bytes() == before
    assert read_scene_list(file.with_name("scenes.regrouped.json")) == result
    assert [scene.name for scene in result.scenes] == ["first", None, None, "third"]


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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 1.5}, ["threshold must lie between 0 and 1"]),
        ({"scenes": 7}, ["6 shot"]),
        ({"scenes": 2, "max_scene": 2}, ["2 scenes of at most 2 seconds, only into 3 or more"]),
        ({"min_scene": 9, "max_scene": 8}, ["the shortest scene, 9 s, is longer than the longest, 8 s"]),
        ({"drop_short": True}, ["--drop-short", "--min-scene"]),
        ({"drop_short": True, "min_scene": 60}, ["no scene has 60 seconds or more"]),
        ({"output": "scenes.json"}, ["is an input of this command; name another file"]),
        ({"output": "nine.edl"}, ["regroup writes a .json; bassl export makes other formats"]),
        ({"output": "nine.csv"}, ["regroup writes a .json; bassl export makes other formats"]),
    ],
)
def test_impossible_options_are_refused_in_one_line_and_nothing_is_written(
    file: Path, options: dict[str, Any], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    before = file.read_bytes()
    refusal(lambda: regroup(file, **options), *words, error=(BasslError, ValueError))
    assert (list(file.parent.iterdir()), file.read_bytes()) == ([file], before)


def test_the_command_prints_the_scenes_and_writes_them(file: Path, bassl: Bassl) -> None:
    file.rename("scenes.json")  # into the folder of `bassl`, where it is the default
    code, out, _ = bassl("regroup", "--threshold", "0.5", "-o", "out/other.json")
    assert (code, len(out.splitlines())) == (0, 5)
    assert len(json.loads(Path("out/other.json").read_text())["scenes"]) == 4
    assert bassl("regroup").err == "3 scenes; wrote scenes.regrouped.json\n"

    code, out, _ = bassl("regroup", "--scenes", "2", "-o", "-", "--json")
    assert (code, len(json.loads(out)["scenes"])) == (0, 2), "stdout gets only one JSON document"
