"""Which results the arguments of a command name, and the names of what belongs to a result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.errors import BasslError, ChangedError
from pipelines.results.finding import beside, existing_result, expand_results, find_result, make_output_folder
from pipelines.results.replacing import replace_result, result_version
from tests.outputs.exporting import scene_list


def put(*files: str) -> None:
    for file in files:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


PLACES = {
    "working folder": ["movie.scenes.json", "videos/movie.scenes.json", "scenes/movie.scenes.json"],
    "beside the video": ["videos/movie.scenes.json", "scenes/movie.scenes.json"],
    "of several videos": ["scenes/movie.scenes.json"],
    "there beside the video": ["videos/scenes/movie.scenes.json"],
}


@pytest.mark.parametrize("files", PLACES.values(), ids=PLACES)
def test_the_result_of_a_video_is_found_where_predict_writes_it(files: list[str]) -> None:
    put(*files)
    assert find_result(Path("videos/movie.mp4")) == Path(files[0])


def test_a_result_has_the_name_of_its_video_as_it_is() -> None:
    assert find_result(Path("videos/movie.mp4")) == Path("movie.scenes.json"), "where predict would write it"
    assert find_result(Path("My mövie (1).mp4")) == Path("My mövie (1).scenes.json")
    assert beside(Path("out/My_movie_1.scenes.json"), ".html") == Path("out/My_movie_1.scenes.html")
    assert beside(Path("-"), ".edl") == Path("scenes.edl")


NAMED: dict[str, tuple[list[str], list[str], list[str]]] = {
    "the only one": (["a.scenes.json", "a.mp4"], [], ["a.scenes.json"]),
    "the only one, of another name": (["scenes.json"], [], ["scenes.json"]),
    "the only one of several videos": (["scenes/a.scenes.json"], [], ["scenes/a.scenes.json"]),
    "a folder": (["out/a.scenes.json", "out/a.scenes.guides.json", "out/b.json"], ["out"], ["out/a.scenes.json"]),
    "a folder with a folder of results": (
        ["out/scenes/a.scenes.json", "out/a.mp4"],
        ["out"],
        ["out/scenes/a.scenes.json"],
    ),
    "a folder of videos": (
        ["videos/a.mp4", "videos/b.mkv", "scenes/a.scenes.json"],
        ["videos"],
        ["videos/a.mp4", "videos/b.mkv"],
    ),
    "a folder of videos that share a name": (
        ["videos/x/a.mp4", "videos/y/a.mp4", "scenes/x_a.scenes.json"],
        ["videos"],
        ["scenes/x_a.scenes.json", "y_a.scenes.json"],
    ),
    "each once": (["a.scenes.json"], ["a.mp4", "./a.scenes.json", "b.mp4", "-"], ["a.mp4", "b.mp4", "-"]),
    "exports that the shell named": ([], ["b.json", "b.guides.json", "b.label-studio.json"], ["b.json"]),
}


@pytest.mark.parametrize(("files", "sources", "results"), NAMED.values(), ids=NAMED)
def test_arguments_name_results(files: list[str], sources: list[str], results: list[str]) -> None:
    put(*files)
    assert expand_results([Path(source) for source in sources]) == [Path(result) for result in results]


UNNAMED: dict[str, tuple[list[str], list[str], str]] = {
    "none": ([], [], "no scenes.json in this folder; name a video or a scenes.json, or run: bassl predict VIDEO"),
    "many": ([f"{i}.scenes.json" for i in range(9)], [], "there are 9 results; .*4.scenes.json and 4 more"),
    "a folder without": (["out/a.csv"], ["out"], "out: contains no videos and no NAME.scenes.json"),
    "videos without": (
        ["videos/a.mp4"],
        ["videos"],
        "videos: its videos have no NAME.scenes.json; .*: bassl predict videos",
    ),
}


@pytest.mark.parametrize(("files", "sources", "line"), UNNAMED.values(), ids=UNNAMED)
def test_without_one_result_a_line_says_what_to_name_or_run(files: list[str], sources: list[str], line: str) -> None:
    put(*files)
    with pytest.raises(BasslError, match=rf"^{line}$"):
        expand_results([Path(source) for source in sources])


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("videos/a.mp4", "a.scenes.json: no such file; make it with: bassl predict videos/a.mp4"),
        ("a.json", "a.json: no such file; make it with: bassl predict VIDEO `output=a.json`"),
        ("gone.mp4", "gone.mp4: no such file"),
        ("x" * 300 + ".mp4", "x" * 300 + ".mp4: no such file"),
    ],
)
def test_a_missing_result_is_named_with_the_command_that_makes_it(source: str, line: str) -> None:
    put("videos/a.mp4")
    with pytest.raises(BasslError, match=rf"^{line}$"):
        existing_result(Path(source))


def test_files_of_several_results_need_different_names_in_one_folder() -> None:
    sources = [Path("a/x.scenes.json"), Path("b/X.scenes.json")]
    with pytest.raises(BasslError, match=r"b/X\.scenes\.json and a/x\.scenes\.json: have the same name"):
        make_output_folder(sources, Path("out"))
    assert not Path("out").exists()
    make_output_folder([*sources[:1], Path("y.mp4")], Path("out/deep"))
    assert Path("out/deep").is_dir()


@pytest.mark.parametrize("before", [None, b"before"])
def test_of_several_that_change_the_same_version_of_a_result_one_writes_it_and_the_others_are_told(
    before: bytes | None,
) -> None:
    result = Path("out/a.scenes.json")
    if before is not None:
        put(str(result))
        result.write_bytes(before)
    version, scenes = result_version(result), scene_list([30, 31], [0, 1])

    def write(number: int) -> int | None:
        try:
            replace_result(result, replace(scenes, settings={"number": number}), version)
        except ChangedError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        written = {*pool.map(write, range(8))} - {None}
    assert written == {read_scene_list(result).settings["number"]}
    assert [*result.parent.iterdir()] == [result]
    result.unlink()
    replace_result(result, scenes, version)  # what was removed is not lost
    assert result.exists()
    result.unlink()
    result.symlink_to(result.name)  # as one that cannot be read for a moment: it may be newer
    with pytest.raises(BasslError, match="cannot be read"):
        replace_result(result, scenes, version)
    assert result.is_symlink()
