"""A path in a scenes.json that cannot exist: a missing video."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import Bassl
from tests.outputs.exporting import scene_list


@pytest.mark.parametrize("command", ["export s.json --to otio", "report s.json", "regroup s.json --scenes 2 -o 2.json"])
@pytest.mark.parametrize("name", ["x" * 300 + ".mp4", "/" + "long/" * 2000 + "x.mp4"], ids=["name", "path"])
def test_a_path_that_cannot_exist_counts_as_a_missing_video(bassl: Bassl, command: str, name: str) -> None:
    scene_list([30, 31, 29], [1, 2], path=name).save(Path("s.json"))
    code, _, err = bassl(*command.split())
    assert code == 0, err
    assert all(len(line) < 2100 for line in err.splitlines())
