"""Subtitles of a video: its own track and files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import BasslError
from pipelines.outputs.exports import webvtt
from pipelines.scenes import Line
from pipelines.settings import Reading
from pipelines.video.inputs import subtitles_beside
from pipelines.video.reader import VideoReader, lines_from
from pipelines.video.shots import ReaderSettings
from pipelines.video.subtitles import lines_within, read_subtitles
from tests import videos
from tests.outputs.exporting import scene_list

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


def subtitles(path: Path, subtitles: Path | bool = True, **options: Any) -> tuple[tuple[Line, ...], list[str]]:
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
    cues, warnings = read_subtitles(written(tmp_path / name, text, encoding))
    assert lines_within(cues, 0, 0, 10) == (LINES, [])
    assert warnings == []


def test_a_file_that_is_not_utf8_is_read_as_what_it_looks_like_with_a_warning(movie: Path) -> None:
    file = written(movie.with_suffix(".srt"), SRT.replace("Bye", "Adiós"), "cp1252")
    lines, warnings = subtitles(movie)
    assert lines[1].text == "Adiós"
    remedy = "if that is wrong, name another with `subtitle_encoding`"
    assert warnings == [f"{file}: is not UTF-8; its subtitles were read as cp1252; {remedy}"]


SAID = {
    "cp1251": "Привет, сегодня мы идём в порт, там холодно.",
    "gbk": "你好，今天我们去港口，那里很冷。",
    "shift_jis": "こんにちは、今日は港へ行きます。",
    "euc_kr": "안녕하세요, 오늘 우리는 항구에 갑니다.",
    "cp1250": "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "utf-16-le": "Grüße",
    "utf-16-be": "你好，今天我们去港口，那里很冷。",
}


@pytest.mark.parametrize(("encoding", "said"), SAID.items())
def test_the_encoding_is_found_by_the_content(tmp_path: Path, encoding: str, said: str) -> None:
    cues, _ = read_subtitles(written(tmp_path / "a.srt", SRT.replace("Bye", said), encoding))
    assert cues[1].text == said


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
def test_a_damaged_byte_of_utf8_damages_one_character_with_a_warning(tmp_path: Path, mark: bytes) -> None:
    file = tmp_path / "a.srt"
    file.write_bytes(mark + SRT.replace("Bye", "Größe\nB?e").encode().replace(b"?", b"\xff"))
    cues, warnings = read_subtitles(file)
    assert cues[1].text == "Größe\nB\ufffde"
    assert warnings == [f"{file}: has damaged text: 1 character cannot be read as utf-8"]


def test_the_encoding_that_a_person_names_is_used(movie: Path) -> None:
    file = written(movie.with_name("words.srt"), SRT.replace("Bye", "שלום"), "cp1255")
    assert subtitles(movie, file, subtitle_encoding="cp1255") == ((LINES[0], Line(2.0, 3.0, "שלום")), [])


@pytest.mark.parametrize("name", ["klingon", "base64", ""])
def test_an_encoding_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="unknown encoding"):
        Reading(subtitle_encoding=name)


def cues_of(path: Path, text: str) -> list[tuple[float, float, str]]:
    """Return the cues of a file with this text."""
    return [(cue.start, cue.end, cue.text) for cue in read_subtitles(written(path, text))[0]]


TIMES = {
    "00:00:12 --> 00:00:14": (12.0, 14.0),
    "00:00:02,5 --> 00:00:03,25": (2.5, 3.25),
    "00:00:02.500 --> 00:00:03.000": (2.5, 3.0),
    "00:00:02:500 --> 00:00:03:000": (2.5, 3.0),
    "00: 00: 02, 500 --> 00: 00: 03, 000": (2.5, 3.0),
    "1:02:03,5 --> 1:02:04,5": (3723.5, 3724.5),
    "00:12,000 --> 00:14,000": (12.0, 14.0),
    "123:00:00,000 --> 1000:00:01,000": (442_800.0, 3_600_001.0),
    "-00:00:04,000 --> -00:00:01,000": (-4.0, -1.0),
    "  00:00:01,000   -->   00:00:02,000  X1:100 X2:200": (1.0, 2.0),
    "00:00:01,000-->00:00:02,000": (1.0, 2.0),
    "00:00:01,000 -> 00:00:02,000": (1.0, 2.0),
}


@pytest.mark.parametrize(("times", "expected"), TIMES.items())
def test_times_of_srt_are_read_as_people_write_them(tmp_path: Path, times: str, expected: tuple[float, float]) -> None:
    text = f"1\n00:00:00,000 --> 00:00:01,000\nBefore\n\n2\n{times}\nHere\n"
    assert cues_of(tmp_path / "a.srt", text) == [(0, 1, "Before"), (*expected, "Here")]


@pytest.mark.parametrize(
    "times", ["00:00:00,000 --> later", "00:00:60,000 --> 00:01:01,000", "00:60:00,000 --> 01:00:01,000"]
)
def test_a_cue_with_times_that_cannot_be_read_is_lost_alone_and_counted(tmp_path: Path, times: str) -> None:
    cue = f"3\n{times}\nLost\n"
    srt, vtt = f"{cue}\n{SRT}\n{cue}", f"WEBVTT\n\n{cue}\n{VTT.removeprefix('WEBVTT')}\n{cue}".replace(",", ".")
    for path, text, row in ((tmp_path / "a.srt", srt, 2), (tmp_path / "a.vtt", vtt, 4)):
        cues, warnings = read_subtitles(written(path, text))
        assert [cue.start for cue in cues] == [0.5, 2.0]
        assert warnings == [f"{path}: 2 of 4 cues could not be read, the first in line {row}"]
    start, end = times.replace(",", ".").split(" --> ")
    file = written(tmp_path / "a.ass", f"{ASS}Dialogue: 0,{start},{end},Default,,0,0,0,,Lost\nDialogue: 0\n")
    assert read_subtitles(file)[1] == [f"{file}: 2 of 5 cues could not be read, the first in line 13"]


def test_blocks_of_webvtt_that_are_no_cues_are_left_out(tmp_path: Path) -> None:
    head = "WEBVTT - a title\nKind: captions\n\nSTYLE\n::cue(b) {\n  color: red;\n}\n\nREGION\nid:fred\n\n"
    text = f"{head}NOTE one\ntwo\n\nintro\n00:01.000 --> 00:02.000 line:0\nHi\n\nNOTE\nnot said\n\nnor this\n"
    for ends in ("\n", "\r\n", "\r", "\r\r\n"):
        assert cues_of(tmp_path / "a.vtt", text.replace("\n", ends)) == [(1, 2, "Hi")]


SIGNS = {  # what stands in the place of "Bye", and what is read
    "signs of other formats": (".srt", "a < b, I <3 {you} \\ & <laughs>", "a < b, I <3 {you} \\ & <laughs>"),
    "references": (".vtt", "{a} a < b &lt;i&gt; &amp; \\h {b", "{a} a < b <i> & \\h {b"),
    "escapes": (".ass", r"50\h% \{a\} {b}c", "50 % {a} c"),
    "a style that is like a drawing": (".ass", r"{\pbo3\pos(1,1)}Said", "Said"),
    "an accent of its own": (".srt", "Zu\u0308rich", "Z\u00fcrich"),
    "control characters and line separators": (".srt", "B\x1b[31my\x85e\u2028!</script>", "B [31my e !"),
    "directions": (".vtt", "By\u202ee", "Bye"),
    "how a word is spoken": (".vtt", "<ruby>\u6f22<rt>kan</rt>\u5b57<rt.a>ji</ruby> <i>said</i>", "\u6f22\u5b57 said"),
    "a number": (".srt", "It was\n\n1984", "It was\n1984"),
    "a byte order mark where files were joined": (".srt", "Bye\n\n\ufeff3\n0:0:4 --> 0:0:5\nAgain", "Bye"),
}


@pytest.mark.parametrize(("ending", "said", "expected"), SIGNS.values(), ids=SIGNS)
def test_markup_is_removed_and_signs_of_the_text_stay(tmp_path: Path, ending: str, said: str, expected: str) -> None:
    text = {".srt": SRT, ".vtt": VTT, ".ass": ASS}[ending].replace("Bye", said)
    assert (2.0, 3.0, expected) in cues_of(tmp_path / f"a{ending}", text)


@pytest.mark.parametrize("line", [r"{\p", "{", "<i ", "&amp", "\r", "a\u0300\u0316", "-->", "0:", "<"])
@pytest.mark.parametrize("ending", [".srt", ".vtt", ".ass"])
@pytest.mark.timeout(20)
def test_a_megabyte_of_one_sign_takes_linear_time(tmp_path: Path, line: str, ending: str) -> None:
    long = line * (2**20 // len(line.encode()))
    text = {".srt": SRT, ".vtt": VTT, ".ass": ASS}[ending].replace("Bye", f"Bye{long}")
    cues, _ = read_subtitles(written(tmp_path / f"a{ending}", text))
    lines_within(cues, 0, 0, 10)


@pytest.mark.parametrize(("rows", "overlap"), [(1, 0.0), (2, 1.5), (3, 0.0)])
def test_each_phrase_of_rolling_captions_is_there_once(rows: int, overlap: float) -> None:
    phrases = [f"phrase {i}" for i in range(10)]
    cues = [Line(2.0 * i, 2.0 * i + 2 + overlap, "\n".join(phrases[: i + 1][-rows:])) for i in range(10)]
    lines, _ = lines_within(cues, 0, 0, 100)
    assert [(line.start, line.text) for line in lines] == [(2.0 * i, phrase) for i, phrase in enumerate(phrases)]


def test_each_phrase_of_automatic_captions_of_youtube_is_there_once(tmp_path: Path) -> None:
    text = """WEBVTT
Kind: captions
Language: en

00:00:00.160 --> 00:00:02.149 align:start position:0%
\x20
hello<00:00:00.480><c> and</c><00:00:00.800><c> welcome</c>

00:00:02.149 --> 00:00:02.159 align:start position:0%
hello and welcome
\x20

00:00:02.159 --> 00:00:04.390 align:start position:0%
hello and welcome
to<00:00:02.399><c> the</c><00:00:02.720><c> show</c>

00:00:04.390 --> 00:00:04.400 align:start position:0%
to the show
\x20

00:00:04.400 --> 00:00:06.000 align:start position:0%
to the show
today
"""
    cues, _ = read_subtitles(written(tmp_path / "movie.en.vtt", text))
    lines, _ = lines_within(cues, 0, 0, 100)
    assert [(line.start, line.text) for line in lines] == [
        (0.16, "hello and welcome"),
        (2.159, "to the show"),
        (4.4, "today"),
    ]


def test_of_cues_the_part_that_is_shown_is_read_and_a_text_that_is_shown_again_at_once_is_one_line() -> None:
    early = [Line(-4, -1, "never"), Line(-1, 0, "nor this"), Line(-1, 2, "from 0"), Line(3, 2, "ends early")]
    assert lines_within(early, 0, 0, 10)[0] == (Line(0, 2, "from 0"), Line(3, 3, "ends early"))
    repeats = [(0, 5), (1, 2), (3, 6), (6.04, 7), (7.06, 9), (7.5, 8)]
    lines, _ = lines_within([Line(start, end, "Sign") for start, end in repeats], 0, 0, 10)
    assert lines == (Line(0, 7, "Sign"), Line(7.06, 9, "Sign"))


REFUSED = {
    "missing": ("none.srt", None, "no such file"),
    "unknown extension": ("a.txt", SRT.encode(), "supported: .srt"),
    "empty": ("a.srt", b"", "contains no subtitles"),
    "no lines": ("a.vtt", b"WEBVTT\n\nNOTE nothing\n", "contains no subtitles"),
    "another format": ("a.vtt", SRT.encode(), "contains no subtitles"),
    "a video": ("a.srt", bytes(range(256)) * 100, "subtitles"),
}


@pytest.mark.parametrize(("name", "content", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_named_file_that_cannot_be_used_is_an_error(
    movie: Path, name: str, content: bytes | None, reason: str
) -> None:
    file = movie.with_name(name)
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BasslError) as error:
        subtitles(movie, file)
    assert re.fullmatch(f"{re.escape(str(file))}: .*{reason}.*", str(error.value))


@pytest.mark.parametrize("ending", [".srt", ".ttml"])
def test_a_file_beside_the_video_that_cannot_be_used_is_a_warning(movie: Path, ending: str) -> None:
    movie.with_suffix(ending).write_bytes(b"")
    lines, (warning,) = subtitles(movie)
    assert not lines
    assert warning.startswith(f"{movie.with_suffix(ending)}: ")
    assert warning.endswith("; these subtitles are left out")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["movie.srt", "movie.en.srt"], "movie.srt"),
        (["movie.pt-BR.srt"], "movie.pt-BR.srt"),
        (["movie.vtt", "movie.ass"], "movie.ass"),
        (["movie.en.cc.srt", "movie.en.forced.srt", "movie.en.srt"], "movie.en.srt"),
        (["movie.de.forced.srt", "movie.en.hi.srt"], "movie.en.hi.srt"),
        (["movie.de.commentary.srt", "movie.forced.srt", "movie.sdh.srt"], "movie.sdh.srt"),
        (["movie_en.srt", "movie2.srt", "movie.part.srt"], "movie_en.srt"),
        (["movie English.srt", "movie-english.forced.srt"], "movie English.srt"),
        (["movie.ttml", "movie.en.forced.srt"], "movie.en.forced.srt"),
        (["movie.bts.srt", "movie.bts.mkv"], None),
        (["movie.bts.sdh.srt", "movie.bts.mkv", "movie.de.srt"], "movie.de.srt"),
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


def test_accents_in_names_of_files_may_be_composed_or_not(tmp_path: Path) -> None:
    file = written(tmp_path / "Zu\u0308rich.de.srt")
    assert subtitles_beside(tmp_path / "Z\u00fcrich.mp4") == file


def test_chapters_that_were_exported_are_no_speech(movie: Path) -> None:
    chapters = written(movie.with_suffix(".vtt"), webvtt(scene_list([25, 25])).text)
    assert subtitles(movie) == ((), [])
    with pytest.raises(BasslError, match=r"movie\.vtt: contains chapters or thumbnails for a player, not subtitles"):
        subtitles(movie, chapters)
    written(chapters, VTT.replace("WEBVTT", "WEBVTT\nKind: metadata", 1))
    english = written(movie.with_suffix(".en.vtt"), VTT)
    assert subtitles_beside(movie) == english


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
        (("default+comment", "0"), "Zwei"),
    ],
)
def test_of_several_tracks_the_default_one_or_the_first_is_read_but_not_forced_ones_or_commentary(
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
    assert subtitles(captioned)[0] == lines_from(file, None, captioned, 0.0, 5.0)[0]


def test_of_a_part_of_the_video_the_lines_that_are_shown_in_it_are_read(movie: Path, tmp_path: Path) -> None:
    captioned = videos.remuxed(tmp_path / "own.mkv", movie, written(tmp_path / "words.srt"))
    for path in (captioned, movie):
        assert subtitles(path, written(tmp_path / "w.srt"), start=1.0, end=2.5)[0] == (
            Line(1.0, 1.5, LINES[0].text),
            Line(2.0, 2.5, "Bye"),
        )
    assert subtitles(captioned, start=1.75)[0] == LINES[1:]


def test_a_limit_of_text_is_announced() -> None:
    cues = [Line(i, i + 1, f"{i} {'word ' * 1000}") for i in range(1000)]
    lines, (warning,) = lines_within(cues, 0, 0, 2000)
    assert warning.startswith("100,000 lines and 4,000,000 characters of subtitles are kept; ")
    assert warning.endswith(f"; {1000 - len(lines)} later lines are left out")


def test_a_file_or_a_track_with_too_many_cues_says_so(
    movie: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = written(tmp_path / "words.srt")
    captioned = videos.remuxed(tmp_path / "own.mkv", movie, words)
    for module in ("decoding", "subtitles"):
        monkeypatch.setattr(f"pipelines.video.{module}.MOST_CUES", 1)
    limit = "more than 1 cues; later ones are left out"
    assert subtitles(captioned) == (LINES[:1], [f"{captioned}: its own subtitles have {limit}"])
    assert subtitles(captioned, words) == (LINES[:1], [f"{words}: has {limit}"])
