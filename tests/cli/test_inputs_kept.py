"""No command overwrites a file that it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import small_stores, videos
from tests.command import Bassl
from tests.outputs.exporting import scene_list

COMMANDS = {
    "score a list": "score a.json b.json --table a.json",
    "score the truth": "score a.json b.json --table b.json",
    "score in the truth's folder": "score a.json truth --table truth/t.csv",
    "baseline": "baseline dp --index index.csv --table index.csv",
    "figure": "figure boundaries a.svg b.json -o a.svg",
    "video": "export own.json -o video.csv --video video.csv",
    "split": "split own.json -f video -o . --overwrite",
    "learn": "learn a.json old.safetensors -o old.safetensors --overwrite",
    "page of another video": "predict video.mp4 video.scenes.html -o . --report",
    "shots": "predict video.mp4 --shots index.csv -o index.csv",
    "export": "predict video.mp4 --shots index.csv --to csv -o index.json",
    "subtitles": "predict video.mp4 --subtitles video.csv -o video.csv",
    "page": "predict video.mp4 --shots video.html --report -o video.json",
    "build-index": "build-index stores -o stores/video.h5 --overwrite",
    "build-index labels": "build-index stores --labels b.json -o b.json --overwrite",
    "import-checkpoint": "import-checkpoint old.ckpt -o old.ckpt --overwrite",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for name in ("a.json", "b.json", "a.svg"):
        scene_list([30, 31, 29], [1, 2], path="video.mp4").save(folder / name)
    for name in ("truth/t.csv", "index.csv", "old.ckpt", "old.safetensors", "video.html", "video.scenes.html"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("start,end\n0,1.2\n1.2,3.6\n")
    videos.scenes_of(videos.write_video(folder / "video.mp4", videos.images(20)), ()).save(folder / "own.json")
    (folder / "video.csv").write_bytes((folder / "video.mp4").read_bytes())
    (folder / "stores").mkdir()
    small_stores.put_store(folder / "stores/video.h5", 4)
    return folder


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_command_overwrites_its_input(
    place: Path, bassl: Bassl, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    before = {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}
    code, out, err = bassl(*command.split())
    assert (code, out) == (2, "")
    assert "is an input of this command" in err or "is in a folder that this command reads" in err
    assert err.count("bassl: ") == 1
    assert {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()} == before


@pytest.mark.parametrize(
    ("command", "extension"),
    [("split a.json", ".mp4"), ("save-images a.json", ".jpg"), ("regroup a.json b.json", ".jsonl")],
)
def test_a_file_name_is_refused_for_a_folder(
    bassl: Bassl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, extension: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "b.json"):
        scene_list([30, 31, 29], [1, 2]).save(name)
    run = bassl(*command.split(), "-o", f"x{extension}")
    assert run.code == 2
    assert f"x{extension}: is the name of a file; for several name a folder, such as x/" in run.err
    assert not Path(f"x{extension}").exists()
