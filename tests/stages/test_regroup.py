"""`regroup`: scenes for other settings, computed from the stored scores."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.errors import BasslError, ChangedError
from pipelines.progress import VideoProgress
from pipelines.results.replacing import is_corrected
from pipelines.scenes import SceneData, Segment, Transition
from pipelines.settings import Grouping
from pipelines.stages import regroup as stage
from pipelines.stages.regroup import regroup, regroup_videos, regrouped
from pipelines.stages.scene_list import load_scenes
from tests.command import Bassl
from tests.outputs.exporting import scene_list
from tests.small_stores import refusal

SCORES = (0.9, 0.2, 0.6, 0.4, 0.8, 0.1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return six shots of one second with known scores, in three scenes."""
    listed = scene_list([25] * 6, [0, 4, 5])
    shots = [replace(shot, score=score) for shot, score in zip(listed.shots, SCORES, strict=True)]
    shots[0] = replace(shots[0], transition=Transition("dissolve", 20, 30, 0.8, 1.2))
    settings = {"bassl": "0.1.0", "model_id": "tiny", "detector": "content", "threshold": 0.7}
    settings["min_scene"] = 0.0
    replace(listed, shots=tuple(shots), settings=settings).save(tmp_path / "scenes.json")
    return tmp_path / "scenes.json"


def lengths(result: SceneData) -> list[int]:
    return [scene.end_shot - scene.start_shot for scene in result.scenes]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"threshold": 0.5}, [1, 2, 2, 1]),
        ({"threshold": 0.3, "min_scene": 3.0}, [3, 3]),
        ({"scenes": 2}, [1, 5]),
        ({"max_scene": 3.0, "min_scene": 2.0}, [3, 3]),
        ({}, [1, 4, 1]),
    ],
)
def test_scenes_follow_from_options_or_the_file(file: Path, options: dict[str, Any], expected: list[int]) -> None:
    result = regroup(file, **options)
    assert lengths(result) == expected
    assert (result.settings["threshold"], result.settings["detector"]) == (options.get("threshold", 0.7), "content")


def test_options_stay_as_in_the_file_and_a_warning_tells_of_shots_longer_than_the_longest_scene(file: Path) -> None:
    limited, short = file.with_name("limited.json"), file.with_name("short.json")
    assert regroup(file, max_scene=2.0, output=limited).warnings == ()
    assert lengths(regroup(limited, threshold=0.5)) == [1, 2, 2, 1]
    assert lengths(regroup(limited, threshold=0.7, max_scene=0)) == [1, 4, 1]
    dropped = regroup(file, output=short, threshold=0.3, min_scene=1.5, drop_short=True)
    assert lengths(regroup(short)) == lengths(dropped)
    assert lengths(regroup(short, min_scene=0)) == [1, 2, 1, 1, 1]
    (warning,) = regroup(file, max_scene=0.5).warnings
    assert "6 scenes, the first at 00:00:00.000, longer than 0.5 s, because shots" in warning


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"threshold": 0.01}, [2, 2, 1, 1]),
        ({"threshold": 0.01, "min_scene": 3.0}, [2, 4]),
        ({"scenes": 3}, [2, 3, 1]),
        ({"threshold": 0.99, "max_scene": 2.0}, [2, 2, 2]),
    ],
)
def test_pinned_ends_stay_whatever_the_options(file: Path, options: dict[str, Any], expected: list[int]) -> None:
    scenes = read_scene_list(file)
    pins = (False, True, False, None, None, None)
    shots = tuple(replace(shot, pinned=pinned) for shot, pinned in zip(scenes.shots, pins, strict=True))
    replace(scenes, shots=shots).save(file)
    other = file.with_name("other.json")
    result = regroup(file, output=other, **options)
    assert lengths(result) == expected
    assert tuple(shot.pinned for shot in result.shots) == pins
    assert regroup(other, **options) == read_scene_list(other) == result


def test_the_result_replaces_the_input_or_is_written_to_another_file(file: Path) -> None:
    segments = (Segment("end_credits", 100, 150, 4.0, 6.0),)
    replace(read_scene_list(file), segments=segments).save(file)
    before, other = file.read_bytes(), file.with_name("other.json")
    result = regroup(file, threshold=0.5, output=other)
    assert (file.read_bytes(), read_scene_list(other), result.segments) == (before, result, segments)
    assert regroup(file, threshold=0.5) == read_scene_list(file) == result


def named_by_hand(file: Path, *names: str | None) -> None:
    scenes = read_scene_list(file)
    renamed = (replace(scene, name=name) for scene, name in zip(scenes.scenes, names, strict=True))
    replace(scenes, scenes=tuple(renamed)).save(file)


def test_regroup_keeps_answers_edits_and_names_and_says_so(file: Path) -> None:
    scenes = read_scene_list(file)  # scenes of 1, 4 and 1 shots: an end after shot 4 was made by hand at 0.7
    first, second, third = (replace(one, name=name) for one, name in zip(scenes.scenes, ("a", "b", "c"), strict=True))
    replace(scenes, scenes=(replace(first, end_shot=2, end_frame=50, end=2.0, end_timecode="00:00:02.000"),
            replace(second, start_shot=2, start_frame=50, start=2.0, start_timecode="00:00:02.000"), third),
            settings={**scenes.settings, "edited_by_hand": True}).save(file)  # fmt: skip
    result = regroup(file, threshold=0.5)
    assert [(scene.start_shot, scene.name) for scene in result.scenes] == [(0, "a"), (2, None), (3, "b"), (5, "c")]
    assert [shot.pinned for shot in result.shots] == [False, True, None, None, None, None]
    assert result.notes == (f"{file}: kept what was corrected by hand: 2 answers and 3 names",)
    assert (read_scene_list(file), "edited_by_hand" in result.settings) == (replace(result, notes=()), False)
    joined = regroup(file, scenes=2)
    assert [(scene.start_shot, scene.name) for scene in joined.scenes] == [(0, "a"), (2, "b")]
    assert joined.notes[0].endswith("2 answers and 2 names; 1 name could not be kept, because scenes were joined")
    discarded = regroup(file, threshold=0.7, discard_corrections=True)
    assert [scene.name for scene in discarded.scenes] == [None, None, None]
    assert lengths(discarded) == [1, 4, 1]


def test_regroup_into_another_file_leaves_corrections_there(file: Path) -> None:
    other = Path(shutil.copy(file, file.with_name("other.json")))
    named_by_hand(other, "a", "mine", "c")
    before, words = other.read_bytes(), (other, "corrected by hand", "`discard_corrections=True`")
    refusal(lambda: regroup(file, output=other, overwrite=True), *words, error=BasslError)
    assert other.read_bytes() == before
    regroup(file, output=other, discard_corrections=True)
    assert other.read_bytes() != before


def test_a_result_that_is_saved_while_it_is_regrouped_is_left(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save_meanwhile(scenes: SceneData, grouping: Grouping) -> SceneData:
        file.write_text("saved")
        return regrouped(scenes, grouping)

    monkeypatch.setattr(stage, "read_replaceable", lambda *arguments: None)  # a person saves just after this check
    monkeypatch.setattr(stage, "regrouped", save_meanwhile)
    words = f"{file}: was changed meanwhile, and is left as it is"
    refusal(lambda: regroup(file, threshold=0.3), words, error=ChangedError)
    assert file.read_text() == "saved"


def test_files_are_regrouped_in_place_or_into_a_folder_and_a_bad_one_fails_alone(file: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.scenes.json" for name in ("b/a", "b", "c", "a")]
    files[0].parent.mkdir()
    for path in (files[0], files[3]):
        shutil.copy(file, path)
    files[1].write_text("{}")
    scene_list([25], [0], path="c.mp4").save(files[2])
    results = regroup_videos(files, scenes=2)
    assert [(result.video_id, result.status, result.output, result.scenes) for result in results] == [
        ("a", "regrouped", files[0], 2), ("b", "failed", files[1], 0), ("c", "failed", files[2], 0),
        ("a", "regrouped", files[3], 2),
    ]  # fmt: skip
    assert [result.error.startswith(f"{file}: ") for result, file in zip(results, files, strict=True)][1:3] == [
        True
    ] * 2
    assert "the video has 1 shot, so it cannot be divided into 2 scenes" in results[2].error
    assert [len(read_scene_list(path).scenes) for path in (files[0], files[3])] == [2, 2]
    regroup_videos(files[2:], output=tmp_path / "out", scenes=3)
    assert [len(read_scene_list(path).scenes) for path in (tmp_path / "out" / "a.scenes.json", files[3])] == [3, 2]


def test_a_folder_that_cannot_be_written_is_refused_before_any_file_is_regrouped(file: Path) -> None:
    other = file.with_name("other.scenes.json")
    other.mkdir()
    reports: list[VideoProgress] = []
    words = "other.scenes.json: is a folder; name a file to write"
    refusal(lambda: regroup_videos([file, other], progress=reports.append, scenes=2), words, error=BasslError)
    out, words = file.with_name("out.json"), "out.json: is the name of a file; for several name a folder, such as out/"
    refusal(lambda: regroup_videos([file, other], output=out, progress=reports.append), words, error=BasslError)
    assert (reports, len(read_scene_list(file).scenes)) == ([], 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scenes": 2, "max_scene": 2}, ["2 scenes within these limits, pins and credits"]),
        ({"min_scene": 9, "max_scene": 8}, ["the shortest scene, 9 s, is longer than the longest, 8 s"]),
        ({"drop_short": True}, ["`drop_short`", "`min_scene`"]),
        ({"drop_short": True, "min_scene": 60}, ["no scene has 60 seconds or more"]),
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
    assert bassl("regroup").err == "3 scenes; wrote scenes.json\n"

    code, out, _ = bassl("regroup", "--scenes", "2", "-o", "-", "--json")
    assert (code, len(json.loads(out)["scenes"])) == (0, 2), "stdout gets only one JSON document"


def test_the_command_shows_several_files_in_a_table_and_names_outdated_pages(file: Path, bassl: Bassl) -> None:
    for name in ("a", "b"):
        shutil.copy(file, f"{name}.scenes.json")
        Path(f"{name}.scenes.html").touch()
    named_by_hand(Path("b.scenes.json"), "a", None, None)
    old = "note: a.scenes.html still shows the scenes before; renew it with: bassl report a.scenes.json"
    assert bassl("regroup", "a.scenes.json", "--scenes", 2).err.splitlines() == [old, "2 scenes; wrote a.scenes.json"]
    assert bassl("regroup", "a.scenes.json", "--scenes", 2).err == "2 scenes; wrote a.scenes.json\n", "the same scenes"
    code, out, err = bassl("regroup", ".", "--scenes", 4)
    assert (code, [line.split()[:2] for line in out.splitlines()[1:]]) == (0, [["a", "regrouped"], ["b", "regrouped"]])
    assert err.splitlines()[2:] == [
        f"{old} (and 2 more)",
        "0 done, 2 regrouped from their scores, 0 kept, 0 failed; written in place",
    ]
    note = "note: b.scenes.json: kept what was corrected by hand: 1 name"
    assert bassl("regroup", "b.scenes.json", "--scenes", 4).err.splitlines()[0] == note
    assert bassl("regroup", "a.scenes.json", "--scenes", 2, "-q").err == ""


def with_credits(file: Path) -> SceneData:
    """Return twelve shots of one second, with opening credits over the second and end credits over shots 9 and 10."""
    listed = scene_list([25] * 12, [11])
    shots = tuple(replace(shot, score=0.2) for shot in listed.shots)
    segments = (Segment("opening_credits", 25, 50, 1.0, 2.0), Segment("end_credits", 227, 275, 9.08, 11.0))
    settings = {"bassl": "0.1.0", "model_id": "tiny", "threshold": 0.5, "min_scene": 0.0}
    scenes = replace(listed, shots=shots, segments=segments, settings=settings)
    scenes.save(file)
    return scenes


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_scene": 20.0}, [1, 1, 7, 2, 1]),
        ({"scenes": 5}, [1, 1, 7, 2, 1]),
        ({"scenes": 6}, [1, 1, 1, 6, 2, 1]),
        ({"max_scene": 4.0}, [1, 1, 3, 4, 2, 1]),
    ],
)
def test_no_option_moves_ends_of_credits(tmp_path: Path, options: dict[str, Any], expected: list[int]) -> None:
    before = with_credits(tmp_path / "scenes.json")
    result = regroup(tmp_path / "scenes.json", discard_corrections=True, **options)
    assert sorted(lengths(result)) == sorted(expected)
    assert {0, 1, 8, 10} <= {scene.end_shot - 1 for scene in result.scenes}
    with pytest.raises(BasslError, match="within these limits"):
        regrouped(before, Grouping(scenes=4))
    refused = stage.pinned(regrouped(before, Grouping(threshold=0.5)), (), (8, 0))
    assert lengths(refused) == [2, 9, 1], "a person may refuse them"
    assert lengths(regrouped(refused, Grouping(threshold=0.3))) == [2, 9, 1]


def test_a_review_does_not_ask_about_credits(tmp_path: Path) -> None:
    listed = scene_list([25] * 40, [39])
    shots = tuple(replace(shot, score=0.5 if 10 <= shot.index < 30 else 0.01) for shot in listed.shots)
    credits = (Segment("end_credits", 250, 750, 10.0, 30.0),)
    scenes = replace(listed, shots=shots, segments=credits, settings={"threshold": 0.5, "min_scene": 0.0})
    look, without = stage.next_look(scenes, 4), stage.next_look(replace(scenes, segments=()), 4)
    assert without is not None
    assert 10 <= without.start_shot < 27
    assert look is not None
    assert look.end_shot <= 11 or look.start_shot >= 29


def test_black_beside_credits_belongs_to_them(tmp_path: Path) -> None:
    scenes = with_credits(tmp_path / "scenes.json")
    black = [Segment("black", start, end, start / 25, end / 25) for start, end in ((200, 227), (50, 75), (125, 150))]
    result = regrouped(replace(scenes, segments=(*scenes.segments, *black)), Grouping(threshold=0.9))
    assert lengths(result) == [1, 2, 5, 3, 1]


def test_a_persons_answer_wins_over_a_programs_and_only_a_persons_is_a_correction(file: Path) -> None:
    scenes = load_scenes(file)
    by_program = scenes.pin({1}, {0, 2}, by="program")
    assert [shot.pinned for shot in by_program.shots[:4]] == [False, True, False, None]
    assert [shot.pinned_by for shot in by_program.shots[:4]] == ["program"] * 3 + [None]
    assert 1 in {scene.end_shot - 1 for scene in by_program}
    by_both = by_program.pin({0}, {1})
    assert [(shot.pinned, shot.pinned_by) for shot in by_both.shots[:3]] == [
        (True, None), (False, None), (False, "program"),
    ]  # fmt: skip
    assert (is_corrected(by_program), is_corrected(by_both)) == (False, True)
    assert by_both.pin({1}, {0}, by="program").shots == by_both.shots
    by_both.save(file)
    assert load_scenes(file).shots == by_both.shots
    assert regroup(file, threshold=0.9).shots == by_both.shots
