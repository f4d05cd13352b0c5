"""Subtitles of a video: its own track and files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pipelines.errors import BasslError
from pipelines.scenes import Line
from pipelines.video.inputs import subtitles_beside
from pipelines.video.reader import VideoReader, lines_from
from pipelines.video.shots import ReaderSettings
from pipelines.video.subtitles import lines_within, read_subtitles
from tests import videos

SRT = """1
00:00:00,500 --> 00:00:01,500
<i>Hello</i> <b>there</b>,
{\\an8}friend

2
00:00:02,000 --> 00:00:03,000
Bye
"""
LINES = (Line(0.5, 1.5, "Hello there, friend"), Line(2.0, 3.0, "Bye"))
ASS = """[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize
Style: Default,Arial,20

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:02.00,0:00:03.00,Default,,0,0,0,,Bye
Dialogue: 0,0:00:00.50,0:00:01.50,Default,,0,0,0,,{\\i1}Hello{\\i0} there,\\N{\\pos(1,2)}friend
Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\p1}m 0 0 l 10 0 10 10{\\p0}
"""
VTT = """WEBVTT

NOTE not shown

1
00:00.500 --> 00:01.500 align:start
<v Ann><c.loud>Hello</c> there,
friend

00:02.000 --> 00:03.000
Bye
"""


@pytest.fixture
def movie(video: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(video, tmp_path / "movie.mp4"))


def written(path: Path, text: str = SRT, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def subtitles(path: Path, subtitles: Path | bool = True, **options: float) -> tuple[tuple[Line, ...], list[str]]:
    """Return the lines that a reader finds, and its warnings."""
    reader = VideoReader(path, ReaderSettings(subtitles=subtitles, **options))
    for _ in reader:
        pass
    return reader.lines, reader.warnings


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [
        ("a.srt", SRT, "utf-8"),
        ("a.srt", SRT, "utf-8-sig"),
        ("a.srt", SRT, "utf-16"),
        ("a.SRT", SRT.replace("\n", "\r\n"), "utf-8"),
        ("a.ass", ASS, "utf-8"),
        ("a.ssa", ASS, "utf-8"),
        ("a.vtt", VTT, "utf-8"),
    ],
)
def test_a_file_of_subtitles_is_read_without_its_markup(tmp_path: Path, name: str, text: str, encoding: str) -> None:
    lines, is_guess = read_subtitles(written(tmp_path / name, text, encoding))
    assert lines_within(lines, 0, 0, 10) == LINES
    assert not is_guess


def test_a_file_that_is_not_utf8_is_read_as_windows_1252_with_a_warning(movie: Path) -> None:
    file = written(movie.with_suffix(".srt"), SRT.replace("Bye", "Adiós"), "cp1252")
    lines, warnings = subtitles(movie)
    assert lines[1].text == "Adiós"
    assert warnings == [f"{file}: is not UTF-8; its subtitles were read as Windows-1252"]


def test_control_characters_and_bidirectional_marks_are_removed(tmp_path: Path) -> None:
    file = written(tmp_path / "a.srt", SRT.replace("Bye", "B\x1b[31my\u202ee\x85\u2028!</script>"))
    assert read_subtitles(file)[0][1].text == "B [31mye !"


REFUSED = {
    "missing": ("none.srt", None, "no such file"),
    "unknown extension": ("a.txt", SRT.encode(), "supported: .srt"),
    "a folder": ("folder.srt", b"", "is not a file"),
    "empty": ("a.srt", b"", "contains no subtitles"),
    "no lines": ("a.vtt", b"WEBVTT\n\nNOTE nothing\n", "contains no subtitles"),
    "another format": ("a.vtt", SRT.encode(), "contains no subtitles"),
    "a video": ("a.srt", bytes(range(256)) * 100, "subtitles"),
    "too large": ("a.srt", b"\n" * (16 * 2**20 + 1), "larger than 16 MB"),
}


@pytest.mark.parametrize(("name", "content", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_named_file_that_cannot_be_used_is_an_error(
    movie: Path, name: str, content: bytes | None, reason: str
) -> None:
    file = movie.with_name(name)
    if name.startswith("folder"):
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    with pytest.raises(BasslError) as error:
        subtitles(movie, file)
    assert str(error.value).startswith(f"{file}: ")
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_beside_the_video_that_cannot_be_used_is_a_warning(movie: Path) -> None:
    movie.with_suffix(".srt").write_bytes(b"")
    lines, (warning,) = subtitles(movie)
    assert not lines
    assert warning.endswith("; these subtitles are left out")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["movie.srt", "movie.en.srt"], "movie.srt"),
        (["movie.en.srt", "movie.de.srt"], "movie.de.srt"),
        (["movie.pt-BR.srt"], "movie.pt-BR.srt"),
        (["movie.vtt", "movie.ass"], "movie.ass"),
        (["movie.scenes.vtt", "movie2.srt", "movie.txt", "amovie.en.srt"], None),
    ],
)
def test_subtitles_beside_a_video_have_its_name_and_perhaps_a_language(
    tmp_path: Path, names: list[str], expected: str | None
) -> None:
    for name in names:
        written(tmp_path / name)
    file = subtitles_beside(tmp_path / "movie.mp4")
    assert (file and file.name) == expected


def test_a_reader_that_is_not_asked_reads_no_subtitles(movie: Path) -> None:
    written(movie.with_suffix(".srt"))
    assert subtitles(movie, False) == ((), [])


def test_the_videos_own_track_is_read_if_there_is_no_file(movie: Path, tmp_path: Path) -> None:
    captioned = videos.remuxed(tmp_path / "own.mkv", movie, written(tmp_path / "words.srt"))
    assert subtitles(captioned) == (LINES, [])
    written(captioned.with_suffix(".srt"), SRT.replace("Bye", "Goodbye"))
    assert [line.text for line in subtitles(captioned)[0]] == ["Hello there, friend", "Goodbye"]


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the ffmpeg program is not installed")
@pytest.mark.parametrize(
    ("disposition", "expected"),
    [
        (("0", "0"), "Bye"),
        (("0", "default"), "Zwei"),
        (("default+forced", "0"), "Zwei"),
    ],
)
def test_of_several_tracks_the_default_one_or_the_first_is_read_but_not_forced_ones(
    movie: Path, tmp_path: Path, disposition: tuple[str, str], expected: str
) -> None:
    first, second = written(tmp_path / "1.srt"), written(tmp_path / "2.srt", SRT.replace("Bye", "Zwei"))
    command = ["ffmpeg", "-v", "error", "-i", movie, "-i", first, "-i", second, "-map", "0", "-map", "1", "-map", "2"]
    flags = [word for i, name in enumerate(disposition) for word in (f"-disposition:s:{i}", name)]
    captioned = tmp_path / "own.mp4"
    subprocess.run([*command, "-c:v", "copy", "-c:s", "mov_text", *flags, captioned], check=True)
    assert subtitles(captioned)[0][1] == Line(2.0, 3.0, expected)


def test_times_count_from_the_first_frame(tmp_path: Path) -> None:
    times = [1.25 + i / 24 for i in range(videos.FRAMES)]
    plain = videos.write_video(tmp_path / "plain.mkv", videos.images(videos.FRAMES, videos.CUTS), times=times)
    captioned = videos.remuxed(tmp_path / "own.mkv", plain, written(tmp_path / "words.srt"))
    expected = (Line(0.0, 0.25, LINES[0].text), Line(0.75, 1.75, "Bye"))
    assert subtitles(captioned)[0] == expected
    file = written(tmp_path / "own.srt")
    assert subtitles(captioned)[0] == lines_from(file, captioned, 0.0, 5.0)


def test_of_a_part_of_the_video_the_lines_that_are_shown_in_it_are_read(movie: Path, tmp_path: Path) -> None:
    captioned = videos.remuxed(tmp_path / "own.mkv", movie, written(tmp_path / "words.srt"))
    for path in (captioned, movie):
        assert subtitles(path, written(tmp_path / "w.srt"), start=1.0, end=2.5)[0] == (
            Line(1.0, 1.5, LINES[0].text),
            Line(2.0, 2.5, "Bye"),
        )
    assert subtitles(captioned, start=1.75)[0] == LINES[1:]


def test_a_text_that_is_shown_again_at_once_is_one_line() -> None:
    frames = [Line(i / 10, (i + 1) / 10, text) for i in range(20) for text in ("Sign", f"frame {i}")]
    lines = lines_within([*frames, Line(5, 6, "Sign")], 0, 0, 10)
    assert [line for line in lines if line.text == "Sign"] == [Line(0, 2, "Sign"), Line(5, 6, "Sign")]
    assert len(lines) == 22


def test_the_amount_of_text_is_limited(tmp_path: Path) -> None:
    long = f"1\n00:00:00,000 --> 00:00:01,000\n{'word ' * 1000}\n\n" * 600
    lines, _ = read_subtitles(written(tmp_path / "a.srt", long))
    assert max(len(line.text) for line in lines) == 2000
    assert sum(len(line.text) for line in lines) <= 400_000
