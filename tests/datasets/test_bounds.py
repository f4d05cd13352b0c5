"""Limits of scenes.json: impossible numbers, names and sizes give a one-line error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import Bassl
from tests.outputs.exporting import scene_list

COMMANDS = ("export s.json --to otio", "export s.json --to label-studio", "report s.json", "regroup s.json --scenes 2")


def written(change: Any) -> None:
    content = scene_list([30, 31, 29], [1, 2]).to_dict()
    change(content)
    Path("s.json").write_text(json.dumps(content))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" + "0" * 400, "NaN"])
def test_values_that_are_not_numbers_are_refused(bassl: Bassl, command: str, number: str) -> None:
    written(lambda content: content["settings"].update(threshold="here"))
    Path("s.json").write_text(Path("s.json").read_text().replace('"here"', number))
    code, _, err = bassl(*command.split())
    assert code == 2
    assert err.splitlines()[-1].startswith("bassl: s.json: is not usable JSON: ")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["x" * 300 + ".mp4", "/" + "long/" * 2000 + "x.mp4"], ids=["name", "path"])
def test_a_path_that_cannot_exist_counts_as_a_missing_video(bassl: Bassl, command: str, name: str) -> None:
    written(lambda content: content["video"].update(path=name))
    code, _, err = bassl(*command.split())
    assert code == 0, err
    assert all(len(line) < 2100 for line in err.splitlines())


@pytest.mark.parametrize("name", ["a\0b.mp4", "\ud800.mp4"])
def test_an_invalid_video_path_is_refused(bassl: Bassl, name: str) -> None:
    written(lambda content: content["video"].update(path=name))
    for command in COMMANDS:
        code, _, err = bassl(*command.split())
        assert code == 2
        assert "is not the path of a video" in err.splitlines()[-1]


def test_a_scenes_json_of_more_than_16_mb_is_refused_before_it_is_read(bassl: Bassl) -> None:
    Path("s.json").write_text(" " * (16 * 2**20 + 1))
    for command in COMMANDS:
        code, _, err = bassl(*command.split())
        assert code == 2
        assert err.splitlines()[-1] == "bassl: s.json: is larger than 16 MB, too large for a file of this kind"


@pytest.mark.parametrize("command", [*COMMANDS, "predict s.json", "score s.json s.json", "split s.json"])
def test_a_link_to_itself_gives_a_one_line_error(bassl: Bassl, command: str) -> None:
    Path("s.json").symlink_to("s.json")
    code, _, err = bassl(*command.split())
    assert code in (1, 2)
    assert err.count("bassl: ") == 1
    assert "s.json" in err.splitlines()[-1]
