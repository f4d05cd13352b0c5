"""Review from Python: the next look, and answers as pins; saving in place; copies of videos that browsers play."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest

from bassl import BasslError, SceneList, load_scenes
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.errors import ChangedError
from pipelines.models.calibration import review
from pipelines.outputs.images import ShotImages, images_from_video
from pipelines.results.replacing import is_corrected
from pipelines.scenes import SceneData
from pipelines.stages.review import ProxyMaker, ReviewSession
from pipelines.video.decoding import VideoDecoder
from tests import pages, videos
from tests.command import Bassl
from tests.outputs.exporting import scene_list
from tests.running import ENVIRONMENT, children_of, linux, posix, soon
from tests.small_stores import refusal
from tests.videos import CUTS, FRAMES, scenes_of


@pytest.fixture
def scenes() -> SceneList:
    return SceneList(**vars(pages.invented(60)))


def ends(scenes: SceneData) -> set[int]:
    return {scene.end_shot - 1 for scene in scenes.scenes}


@pytest.mark.parametrize(("shots", "looks"), [(8, 20), (2, 59)])
def test_a_program_reviews_a_video_until_its_scenes_are_right(scenes: SceneList, shots: int, looks: int) -> None:
    truth = {4, 11, 12, 30, 44, 51}
    expected = []
    while (look := scenes.next_look(shots)) is not None:
        assert look.end_shot - look.start_shot == shots
        cuts = set(range(look.start_shot, look.end_shot - 1))
        assert set(look.ends) == ends(scenes) & cuts
        expected.append(look.expected_f1)
        scenes = scenes.pin(truth & cuts, cuts - truth)
        assert isinstance(scenes, SceneList)
    assert ends(scenes) == truth | {59}
    assert len(expected) <= looks
    assert expected[0] < expected[-1] <= 1


def test_answers_move_the_threshold_to_the_best_expected_f1_and_stay(scenes: SceneList, tmp_path: Path) -> None:
    reviewed = scenes.pin(ends=[5], joined=range(6, 20))
    best = review([shot.score for shot in scenes.shots], {5: True} | dict.fromkeys(range(6, 20), False)).threshold
    assert reviewed.settings == {**scenes.settings, "threshold": best, "drop_short": False}
    reviewed.save(tmp_path / "scenes.json")
    loaded = load_scenes(tmp_path / "scenes.json")
    for threshold in (0.01, 0.5, 0.99):
        assert ends(loaded.regroup(threshold=threshold)) & set(range(5, 20)) == {5}
    assert not reviewed.pin(joined=[5]).shots[5].pinned, "a later answer replaces an earlier one"
    assert scenes.shots[5].pinned is None, "the scenes before are left alone"


@pytest.mark.parametrize("settings", [{"scenes": 3}, {"edited_by_hand": True}])
def test_a_fixed_number_of_scenes_changes_only_at_answers(scenes: SceneList, settings: dict[str, object]) -> None:
    by_hand = scenes.pin([9, 25, 39], set(range(59)) - {9, 25, 39})
    named = tuple(replace(scene, name=f"scene {scene.index}") for scene in by_hand.scenes)
    by_hand = replace(by_hand, settings={**scenes.settings, **settings}, shots=scenes.shots, scenes=named)
    changed = by_hand.pin(ends=[3], joined=[25, 50])
    assert ends(changed) == {3, 9, 39, 59}
    # A scene keeps its name until more than half of its shots changed: here 6 of 10 stayed, and 14 came to 16.
    assert [scene.name for scene in changed] == [None, "scene 0", None, "scene 3"]
    assert [scene.index for scene in changed] == [0, 1, 2, 3]
    assert changed.settings["threshold"] == scenes.settings["threshold"]
    assert (changed.settings["scenes"], changed.settings["edited_by_hand"]) == (None, True)
    assert is_corrected(changed)


def test_corrections_by_hand_that_pins_explain_are_no_longer_marked_as_such(scenes: SceneList) -> None:
    by_hand = replace(scenes, settings={**scenes.settings, "edited_by_hand": True})
    assert "edited_by_hand" not in by_hand.pin(ends=ends(scenes) - {59}).settings


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda scenes: scenes.pin([3], [2, 3]), "shot 3 cannot both end a scene and be joined to the next shot"),
        (lambda scenes: scenes.pin([59]), "shot 59 cannot be pinned, as no other shot follows it"),
        (lambda scenes: scenes.pin([], [-1]), "shot -1 cannot be pinned, as no other shot follows it"),
        (lambda scenes: scenes.next_look(1), "a look shows two shots or more, not 1"),
    ],
)
def test_impossible_answers_are_refused(scenes: SceneList, ask: Callable[[SceneList], object], reason: str) -> None:
    with pytest.raises(BasslError, match=f"^{reason}$"):
        ask(scenes)
    assert scenes.next_look() == scenes.next_look(8) != scenes.next_look(4)


# --- saving in place ------------------------------------------------------------------------------------------------


@pytest.fixture
def session(scenes: SceneList, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReviewSession:
    """The session of a result whose video is missing."""
    monkeypatch.chdir(tmp_path)
    scenes.save("long.scenes.json")
    return ReviewSession("long.scenes.json", notify=lambda line: None)


def test_only_scenes_of_the_video_are_saved(session: ReviewSession) -> None:
    stored, before = json.loads(session.result.read_text()), session.result.read_bytes()
    changes = ({"path": "/etc/passwd", "fingerprint": "1-0"}, {"path": "a\x00b"})
    others = [json.dumps(stored | {"video": stored["video"] | change}).encode() for change in changes]
    others.append(json.dumps(pages.invented(60, seed=1).to_dict()).encode())
    for content in (b"\xff\xfe", b"[" * 100_000, b"{}", b'{"schema": NaN}', *others):
        refusal(lambda: session.save(content, session.version), "long.scenes.json", error=BasslError)  # noqa: B023
    assert session.result.read_bytes() == before


def test_the_path_of_the_video_is_the_result_s_whatever_is_sent(session: ReviewSession) -> None:
    content = json.loads(session.result.read_text())
    sent = content | {"video": content["video"] | {"path": "/etc/passwd", "relative_path": "../../etc/passwd"}}
    session.save(json.dumps(sent).encode(), session.version)
    assert json.loads(session.result.read_text())["video"]["path"] == content["video"]["path"]


def test_a_result_that_changed_is_neither_replaced_nor_exported(session: ReviewSession) -> None:
    content, version = session.result.read_bytes(), session.version
    assert session.save(content, version) == version, "the same content"
    load_scenes(session.result).regroup(threshold=0.9).save(session.result)
    changed = session.result.read_bytes()
    refusal(lambda: session.save(content, version), error=ChangedError)
    refusal(lambda: session.export("edl", version), error=ChangedError)
    assert session.result.read_bytes() == changed
    assert session.save(content, session.version) == version


def test_only_formats_are_exported_and_each_file_counts_once(session: ReviewSession) -> None:
    for name in ("", "docx", "../edl", "edl,csv"):
        refusal(lambda: session.export(name, session.version), "unknown format", error=BasslError)  # noqa: B023
    assert [file.name for file in Path().iterdir()] == ["long.scenes.json"]
    for name in ("edl", "csv", "edl"):
        assert session.export(name, session.version)["files"] == [f"long.scenes.{name}"]
    assert session.finish().exported == (Path("long.scenes.edl"), Path("long.scenes.csv"))


@pytest.mark.parametrize(("shots", "fits"), [([30, 30, 60], True), ([30, 20, 10, 60], True), ([30, 90], False)])
def test_edits_fit_a_newer_result_with_all_its_cuts(session: ReviewSession, shots: list[int], fits: bool) -> None:
    scene_list([30, 30, 60]).save(session.result)
    shown = ReviewSession(session.result, notify=lambda line: None)
    scene_list(shots).save(session.result)
    assert shown.current() == {"version": shown.version, "fit": fits}


def test_images_are_read_again_for_other_shots_or_if_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache = tmp_path / "cache" / "bassl" / "images"
    video = videos.write_video(tmp_path / "a.mp4", videos.images(240, (200,)))
    read: list[Path] = []
    monkeypatch.setattr(
        "pipelines.outputs.images.images_from_video",
        lambda scenes, video, progress: read.append(video) or images_from_video(scenes, video, progress),
    )

    def images(*cuts: int) -> tuple[ShotImages, int]:
        videos.scenes_of(video, cuts).save(tmp_path / "a.scenes.json")
        return ReviewSession(tmp_path / "a.scenes.json", notify=lambda line: None)._images, len(read)

    first, _ = images(200)
    assert [*first.sides] == [0], "8.3 seconds"
    assert images(200) == (first, 1)
    assert images(200)[0].sides == first.sides
    assert cache.stat().st_mode & 0o777 == 0o700
    (file,) = cache.iterdir()
    for number, damage in enumerate((b"", file.read_bytes()[:-9])):
        file.write_bytes(damage)
        assert images(200) == (first, 2 + number)
    assert (len(images(100)[0]), len(read), len([*cache.iterdir()])) == (2, 4, 2)


# --- copies that browsers play --------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bassl" / "proxies"


def frames_of(video: Path) -> list[tuple[int, float]]:
    """The numbers painted into the frames of a video, with their times."""
    with VideoDecoder(video) as decoder:
        return [(videos.number_of(frame.to_ndarray(format="rgb24")), time) for _, time, frame in decoder.frames()]


def copied(video: Path, scenes: SceneData) -> Path:
    """The finished copy of a video."""
    maker = ProxyMaker(video, scenes, lambda line: None)
    while (state := maker.state())[0] is None:
        time.sleep(0.02)
    return state[0]


HEVC = {"codec": "libx265", "options": {"preset": "ultrafast", "x265-params": "log-level=none"}}
VARIABLE = [i / 24 if i < 30 else 1.25 + (i - 30) / 7 for i in range(60)]


@pytest.mark.parametrize(
    ("name", "rate", "options"),
    [
        ("hevc.mp4", 24, HEVC | {"sound_seconds": 2.0}),
        ("hevc.mkv", 24, HEVC | {"pixel_format": "yuv420p10le", "times": VARIABLE}),
        ("prores.mov", 30000 / 1001, {"codec": "prores_ks", "pixel_format": "yuv422p10le", "sound_seconds": 2.0}),
        ("mpeg2.mxf", 25, {"codec": "mpeg2video"}),
        ("mpeg4.avi", 24, {"codec": "mpeg4"}),
        ("fields.mxf", 25, {"codec": "mpeg2video", "options": {"flags": "+ilme+ildct", "q": "2"}}),
    ],
)
def test_copies_have_the_same_frames(
    name: str, rate: float, options: dict[str, Any], tmp_path: Path, cache: Path
) -> None:
    video = videos.write_video(tmp_path / name, videos.images(60, (12, 41), 640, 480), rate, **options)
    copy = copied(video, videos.scenes_of(video, (12, 41)))
    assert copy.parent == cache
    assert cache.stat().st_mode & 0o777 == 0o700
    before, after = frames_of(video), frames_of(copy)
    assert [number for number, _ in after] == [number for number, _ in before] == [*range(60)]
    assert [time for _, time in after] == pytest.approx([time for _, time in before], abs=1e-4)
    with VideoDecoder(copy) as decoder:
        assert (decoder.width, decoder.height) == (480, 360)
        assert decoder.stream.codec_context.name == "h264"
        assert decoder.stream.format.name == "yuv420p"
        assert not any(frame.interlaced_frame for _, _, frame in decoder.frames())
        assert len(decoder.container.streams.audio) == ("sound_seconds" in options)
    assert [file.name for file in cache.iterdir()] == [copy.name]


@pytest.mark.parametrize("turns", [1, 2])
def test_a_copy_of_a_video_that_a_phone_stored_turned_is_upright(turns: int, tmp_path: Path, cache: Path) -> None:
    plain = videos.write_video(tmp_path / "plain.mp4", videos.images(24, (12,), 640, 480), **HEVC)
    video = videos.rotated(plain, tmp_path / "turned.mp4", turns)
    copy = copied(video, videos.scenes_of(video, (12,)))
    with VideoDecoder(copy) as decoder:
        assert (decoder.width, decoder.height) == ((360, 480) if turns % 2 else (480, 360))
        frames = [frame.to_ndarray(format="rgb24") for _, _, frame in decoder.frames()]
        assert decoder.orientation.turns == 0
    upright = [np.rot90(frame, turns) for frame in frames]
    assert [videos.number_of(frame) for frame in upright] == [*range(24)]


def test_a_small_video_is_not_enlarged_and_odd_sides_become_even(tmp_path: Path, cache: Path) -> None:
    video = videos.write_video(
        tmp_path / "odd.mkv", videos.images(30, (), 161, 97), codec="ffv1", pixel_format="yuv444p"
    )
    with VideoDecoder(copied(video, videos.scenes_of(video, ()))) as decoder:
        assert (decoder.width, decoder.height) == (160, 96)


def test_a_copy_is_made_once_and_old_ones_go(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for i in range(3):
        video = videos.write_video(tmp_path / f"{i}.mp4", videos.images(24, (12,), seed=i), codec="mpeg4")
        made.append((video, copied(video, videos.scenes_of(video, (12,)))))
        os.utime(made[-1][1], (i, i))
    lines: list[str] = []
    again = ProxyMaker(made[0][0], videos.scenes_of(made[0][0], (12,)), lines.append)
    assert (again.state()[0], lines) == (made[0][1], []), "it is there"
    sizes = sum(path.stat().st_size for _, path in made)
    monkeypatch.setattr("pipelines.stages.review.PROXY_BYTES", 1.1 * sizes)
    video = videos.write_video(tmp_path / "new.mp4", videos.images(24, (12,), seed=9), codec="mpeg4")
    newest = copied(video, videos.scenes_of(video, (12,)))
    assert set(cache.iterdir()) == {made[0][1], made[2][1], newest}, "the one used last stays"
    monkeypatch.setattr("pipelines.stages.review.PROXY_BYTES", 1)
    copied(made[1][0], videos.scenes_of(made[1][0], (12,)))
    assert list(cache.iterdir()) == [made[1][1]], "the newest stays in any case"


@linux
def test_the_end_of_a_review_stops_a_copy_and_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    video = videos.write_video(tmp_path / "long.mp4", videos.images(900, (450,), numbered=False), codec="mpeg4")
    before = children_of(os.getpid())
    maker = ProxyMaker(video, videos.scenes_of(video, (450,)), lambda line: None)
    assert soon(lambda: maker.state()[1] > 0)
    assert children_of(os.getpid()) > before
    maker.stop()
    assert children_of(os.getpid()) == before
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_why_no_copy_could_be_made_is_told(tmp_path: Path, cache: Path, session: ReviewSession) -> None:
    with pytest.raises(BasslError, match="the video was not found"):
        session.proxy()
    video = videos.write_video(tmp_path / "a.mp4", videos.images(30), codec="mpeg4")
    scenes = videos.scenes_of(video, ())
    video.write_bytes(video.read_bytes()[:2000])
    maker = ProxyMaker(video, scenes, lambda line: None)
    maker.join(30)
    with pytest.raises(BasslError, match=r"a\.mp4: "):
        maker.state()


# --- the command ------------------------------------------------------------------------------------------------------


NO_DISPLAY = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": "", "SSH_CONNECTION": ""}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a video and its result."""
    monkeypatch.chdir(tmp_path)
    videos.write_video(Path("my movie.mp4"), videos.images(FRAMES, CUTS))
    scenes_of(Path("my movie.mp4")).save("my movie.scenes.json")
    return tmp_path


class Page:
    """The page at an address, and what it asks its server to do."""

    def __init__(self, address: str) -> None:
        self.address, self.text = address, urlopen(address).read().decode()
        self.data = json.loads(re.findall(r'id="data">(.*?)</script>', self.text)[0])

    def ask(self, method: str, name: str, body: bytes) -> None:
        headers = {"Origin": self.address.rpartition("/")[0].rpartition("/")[0], "If-Match": self.data["version"]}
        answer = json.loads(urlopen(Request(self.address + name, body, headers, method=method)).read() or b"{}")
        self.data |= {"version": answer.get("version", self.data["version"])}

    def save(self) -> None:
        self.data["file"]["scenes"][0]["name"] = "Saved"
        self.ask("PUT", "result", json.dumps(self.data["file"]).encode())


class Review:
    """The command without a browser, until it waits. ``printed``: what it has printed on stderr."""

    def __init__(self, place: Path, *arguments: str, **variables: str) -> None:
        command = [sys.executable, "-m", "bassl_cli", "review", *arguments]
        environment = ENVIRONMENT | NO_DISPLAY | {"XDG_CACHE_HOME": str(place / "cache")}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=place, env=environment | variables, **pipes)
        self.address = self.process.stdout.readline().strip()

    def page(self) -> Page:
        return Page(self.address.partition("#")[0])

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err


@posix
def test_the_page_saves_and_exports_in_place_and_the_terminal_says_so(place: Path) -> None:
    review = Review(place)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]+/#review", review.address)
    page = review.page()
    assert page.data["save_as"] == "my movie.scenes.json"
    page.save()
    for name in ("edl", "fcpxml"):
        page.ask("POST", "export", name.encode())
    page.ask("POST", "done", b"1")
    code, err = review.end()
    assert (code, err.splitlines()) == (0, [
        "reading my movie.scenes.json",
        "no browser found; open this address yourself",
        "Done in the page, or Ctrl-C here, ends the review",
        "saved my movie.scenes.json: 4 scenes",
        "wrote my movie.scenes.edl",
        "wrote my movie.scenes.fcpxml",
    ])  # fmt: skip
    assert read_scene_list(place / "my movie.scenes.json").scenes[0].name == "Saved"
    assert "Saved" in (place / "my movie.scenes.edl").read_text()
    assert not list(place.glob("*.html"))


@posix
def test_a_page_beside_the_result_is_not_shown_and_is_named_once_it_is_outdated(place: Path) -> None:
    beside = place / "my movie.scenes.html"
    beside.write_text("<script>harm()</script>")
    review = Review(place)
    page = review.page()
    assert "harm()" not in page.text
    page.save()
    page.ask("POST", "done", b"1")
    assert review.end()[1].splitlines()[-1] == (
        "note: my movie.scenes.html still shows the scenes before; renew it with: bassl report 'my movie.scenes.json'"
    )
    assert beside.read_text() == "<script>harm()</script>"


@posix
def test_a_person_goes_back_and_forth_past_one_that_cannot_be_read_and_reads_how_many_there_are(place: Path) -> None:
    Path("a.scenes.json").write_bytes(Path("my movie.scenes.json").read_bytes())
    Path("b.scenes.json").write_text("{}")
    review, shown = Review(place, "."), []
    for step in (b"1", b"-1", b"1", b"1"):
        page = review.page()
        shown.append((page.data["save_as"], *re.findall(r"(\d of \d) ·", page.text), page.data["next"]))
        page.save()
        page.ask("POST", "done", step)
    first, last = ("a.scenes.json", "1 of 3", "b.scenes.json"), ("my movie.scenes.json", "3 of 3", "")
    assert shown == [first, last, first, last]
    code, err = review.end()
    assert (code, "bassl: b.scenes.json: is not a scenes.json: its 'schema' is not 'bassl.scenes'\n" in err) == (
        1,
        True,
    )
    assert [line for line in err.splitlines() if line.startswith("saved")] == [
        f"saved {name}: 4 scenes" for name, *_ in (first, last) * 2
    ]


@posix
def test_the_scenes_of_a_video_without_a_result_are_found_first_and_quiet_prints_only_the_address(place: Path) -> None:
    Path("my movie.mp4").rename("new.mp4")
    for quiet in ((), ("-q",)):
        review = Review(place, *quiet, "new.mp4")
        page = review.page()
        assert page.data["save_as"] == "new.scenes.json"
        page.save()
        page.ask("POST", "done", b"1")
        code, err = review.end()
        assert code == 0
        Path("new.scenes.json").unlink()
        assert ("does not exist: finding its scenes first" in err, "saved new.scenes.json: " in err) == (not quiet,) * 2
    assert err == ""


@posix
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_review_and_the_terminal_says_what_was_saved(place: Path, number: int, code: int) -> None:
    over_ssh = {"SSH_CONNECTION": "192.0.2.7 50000 192.0.2.9 2222"} if number == signal.SIGTERM else {}
    review = Review(place, **over_ssh)
    port = review.address.split(":")[2].split("/")[0]
    review.page()  # it waits
    review.process.send_signal(number)
    ended, err = review.end()
    forward = rf"ssh -N -L {port}:127\.0\.0\.1:{port} -p 2222 \S+@192\.0\.2\.9"
    assert re.search(forward if over_ssh else "no browser found; open this address yourself", err)
    assert (ended, "my movie.scenes.json is unchanged" in err, "Traceback" in err) == (code, True, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gone.mp4"], "gone.mp4: no such file"),
        (["-"], "-: scenes from stdin cannot be saved in place; name their scenes.json"),
        (
            ["my movie.scenes.json", "z.json", "--video", "my movie.mp4"],
            "my movie.mp4: is one video, but there are 2 results; leave --video out",
        ),
    ],
)
def test_what_cannot_be_reviewed_is_one_line(bassl: Bassl, place: Path, arguments: list[str], words: str) -> None:
    run = bassl("review", *arguments)
    assert (run.code, run.out) == (2, "")
    assert run.err.endswith(f"bassl: {words}\n")
