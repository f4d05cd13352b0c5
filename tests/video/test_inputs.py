"""Finding videos, and their ids: safe, unique, and independent of the order."""

import errno
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pipelines.errors import BasslError, BasslWarning
from pipelines.files import safe_name
from pipelines.video.inputs import find_videos, safe_id, video_ids


@pytest.fixture
def movies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of (empty) videos and other files."""
    names = (
        "b.mp4 a.MKV notes.txt poster.jpg .hidden.mp4 old/c.avi old/.trash/d.mp4 .git/e.mp4 old/deep/f.webm noending "
        "old/[1080p].mov"
    )
    for name in names.split():
        (tmp_path / "movies" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "movies" / name).touch()
    (tmp_path / "movies" / "folder.mp4").mkdir()
    monkeypatch.chdir(tmp_path)
    return Path("movies")


def names(videos: list[Path]) -> list[str]:
    return [str(video) for video in videos]


FOUND = {
    "a folder, recursively, without hidden files": (
        ["movies"],
        ["movies/a.MKV", "movies/b.mp4", "movies/old/[1080p].mov", "movies/old/c.avi", "movies/old/deep/f.webm"],
    ),
    "a hidden folder that is named": (["movies/.git"], ["movies/.git/e.mp4"]),
    "files that are named, with any suffix or hidden": (
        ["movies/notes.txt", "movies/noending", "movies/.hidden.mp4"],
        ["movies/.hidden.mp4", "movies/noending", "movies/notes.txt"],
    ),
    "a pattern": (["movies/*.mp4"], ["movies/b.mp4"]),
    "a recursive pattern": (["movies/**/*.[am][vo][iv]"], ["movies/old/[1080p].mov", "movies/old/c.avi"]),
    "an existing file whose name could be a pattern": (["movies/old/[1080p].mov"], ["movies/old/[1080p].mov"]),
    "a video named twice": (["movies/b.mp4", "movies/*.mp4", "movies/../movies/b.mp4"], ["movies/b.mp4"]),
}


@pytest.mark.parametrize("kind", FOUND)
def test_videos_are_found_in_folders_and_by_names_and_patterns(movies: Path, kind: str) -> None:
    inputs, expected = FOUND[kind]
    assert names(find_videos(inputs)) == expected
    assert len(inputs) > 1 or find_videos(inputs[0]) == find_videos(Path(inputs[0])) == find_videos(inputs)
    absolute = [str(movies.absolute().parent / name) for name in inputs]
    assert names(find_videos(absolute)) == [str(movies.absolute().parent / name) for name in expected]


def test_what_recorders_write_is_found_but_not_in_the_folders_of_storage_systems_and_sound_is_named(
    tmp_path: Path,
) -> None:
    sounds, hidden = "one.mp3 two.wav", "@eaDir/a.mp4 #recycle/b.mp4"
    for name in f"tape.MOD tv.rec old.dvr-ms x/#1/c.ts {sounds} {hidden}".split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.warns(BasslWarning) as warned:
        videos = find_videos(tmp_path)
    assert [video.name for video in videos] == ["old.dvr-ms", "tape.MOD", "tv.rec", "c.ts"]
    assert [str(one.message) for one in warned] == [f"{tmp_path}: contains 2 sound files, such as one.mp3; skipped"]


def test_a_part_of_a_pattern_that_exists_is_taken_as_it_is(movies: Path) -> None:
    folder = movies / "Show [x265]" / "[1]"
    folder.mkdir(parents=True)
    (folder / "a.mp4").touch()
    assert find_videos(movies / "Show [x265]" / "*" / "*.mp4") == [folder / "a.mp4"]
    assert find_videos(folder / "?.mp4") == [folder / "a.mp4"]


def test_links_to_one_video_count_once(movies: Path) -> None:
    (movies / "z.mp4").symlink_to("b.mp4")
    (movies / "a.mp4").symlink_to("b.mp4")
    assert len(find_videos([movies])) == len(find_videos([movies / "*.mp4"])) + 4
    assert names(find_videos([movies / "*.mp4"])) == ["movies/a.mp4"]


def test_linked_folders_are_searched_once(movies: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = find_videos([movies])
    disk = tmp_path_factory.mktemp("another disk")
    (disk / "video.mp4").touch()
    (disk / "back").symlink_to(movies)
    (movies / "disk").symlink_to(disk)
    (movies / "round and round").symlink_to(".")
    assert find_videos([movies]) == sorted([*before, movies / "disk" / "video.mp4"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("movies/none.mp4", "movies/none.mp4: no such file"),
        ("movies/folder.mp4", "movies/folder.mp4: contains no videos"),
        ("movies/" + "x" * 300, "movies/" + "x" * 300 + ": cannot be read (file name too long)"),
        ("", "the name of a file or folder is empty; for the working folder write ."),
        ("-", "-: videos are read from files, not from stdin; name a file"),
    ],
)
def test_missing_inputs_give_a_one_line_error(movies: Path, name: str, message: str) -> None:
    with pytest.raises(BasslError) as caught:
        find_videos(["movies/b.mp4", name])
    assert str(caught.value) == message


# --- ids --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("video", "name"),
    [
        ("movie.mp4", "movie"),
        ("My Movie (1999).mkv", "My_Movie_1999"),
        ("tt0047396", "tt0047396"),
        ("Amélie.mp4", "Amélie"),
        (unicodedata.normalize("NFD", "Amélie.mp4"), "Amélie"),
        ("🎬.mp4", "video"),
        ("...dots.mp4", "dots"),
        ("-rf.mp4", "rf"),
        ("C:\\movies\\a.mp4", "C_movies_a"),
        (os.fsdecode(b"caf\xe9.mp4"), "caf"),
        ("." + "x" * 119 + ".y" * 60 + ".mp4", "y" + ".y" * 59),
        ("侍" * 100 + ".mp4", "侍" * 40),
        ("aa" + "侍" * 39 + "b" + ".mp4", "a" * 2 + "侍" * 39 + "b"),
    ],
)
def test_a_video_id_is_the_file_name_with_safe_characters(video: str, name: str) -> None:
    assert video_ids([Path("/movies") / video]) == [name]


LONG = "y" * 200


@pytest.mark.parametrize(
    ("videos", "ids"),
    [
        (["/movies/1999/a.mp4", "/movies/2001/a.mp4", "/movies/2001/b.mp4"], ["1999_a", "2001_a", "b"]),
        (["/x/a.mp4", "/x/a.webm", "/y/a.mp4"], ["x_a.mp4", "x_a.webm", "y_a"]),
        (["/x/Video.mp4", "/y/video.mp4"], ["x_Video", "y_video"]),
        (["/x/Video.mp4", "/x/video.mp4"], ["Video.mp4", "video.mp4_2"]),
        (["/x/a b.mp4", "/x/a!b.mp4", "/x/a_b.mp4_2"], ["a_b.mp4", "a_b.mp4_3", "a_b.mp4_2"]),
        ([f"/x/a{LONG}.mp4", f"/x/b{LONG}.mp4"], ["y" * 116 + ".mp4", "y" * 114 + ".mp4_2"]),
        ([f"/x/a{LONG}.mp4", f"/y/a{LONG}.mp4"], ["y" * 120, "y" * 118 + "_2"]),
    ],
)
def test_equal_ids_get_folder_names_or_the_suffix_or_a_number(videos: list[str], ids: list[str]) -> None:
    assert video_ids([Path(video) for video in videos]) == ids


SEGMENT = st.text(st.sampled_from("aAbß._- /é侍\n"), min_size=1, max_size=6) | st.sampled_from(
    ["a" * 130, "侍" * 80, "nul.", "con.nul", "Nul_."]
)


@given(
    st.lists(st.tuples(st.sampled_from(["x", "y", "x/a"]), SEGMENT, st.sampled_from([".mp4", ".MKV", ""])), max_size=8)
)
def test_ids_are_unique_safe_and_reproducible(parts: list[tuple[str, str, str]]) -> None:
    videos = sorted({Path("/nowhere") / folder / f"{name.replace('/', '')}f{ending}" for folder, name, ending in parts})
    ids = video_ids(videos)
    assert len({name.casefold() for name in ids}) == len(videos)
    assert ids == video_ids(videos)
    for name in ids:
        assert name
        assert name == safe_name(name)
        assert name[0] not in ".-"
        assert safe_id(name) == name
        assert len(name.encode()) <= 120
        assert all(character.isalnum() or character in "._-" for character in name)


def test_a_folder_that_cannot_be_read_and_a_link_to_a_missing_video_are_left_out_with_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.mp4").touch()
    (tmp_path / "locked").mkdir()
    (tmp_path / "link.mp4").symlink_to("gone.mp4")
    scan = os.scandir

    def refuse(folder: str) -> object:
        if folder == str(tmp_path / "locked"):
            raise PermissionError(errno.EACCES, "Permission denied", folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.warns(BasslWarning) as warned:
        assert find_videos(tmp_path) == [tmp_path / "a.mp4"]
    assert [str(one.message) for one in warned] == [
        f"{tmp_path}/link.mp4: is a link to a missing file; skipped",
        f"{tmp_path}/locked: cannot be read (permission denied); skipped",
    ]
