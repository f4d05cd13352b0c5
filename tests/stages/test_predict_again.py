"""`predict` of a video that has a result: kept, regrouped from its scores, or read again."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bassl import PredictSettings, SceneList
from pipelines import files
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.errors import BasslError, ChangedError
from pipelines.options import with_options
from pipelines.outputs import images
from pipelines.outputs.page import shows
from pipelines.stages.predict import model as scene_model, predict_videos
from pipelines.video.shots import ReaderSettings, VideoProcess
from tests import videos
from tests.predicting import predict_file
from tests.small_stores import refusal


@pytest.fixture(scope="module")
def settings(model: Path) -> PredictSettings:
    return with_options(PredictSettings, model=model, device="cpu")


@pytest.fixture(scope="module")
def predicted(video: Path, settings: PredictSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the result of the video."""
    output = tmp_path_factory.mktemp("predicted") / "video.scenes.json"
    predict_file(video, output, settings)
    return output


@pytest.fixture
def file(predicted: Path, tmp_path: Path) -> Path:
    """Return the result of the video, to be changed."""
    return Path(shutil.copy(predicted, tmp_path))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return what the video is read for, each time: to predict, or for the images of the shots of a result."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    purposes: list[str] = []

    def process(purpose: str) -> Callable[..., VideoProcess]:
        def start(path: Path, settings: ReaderSettings, progress: Any = None) -> VideoProcess:
            purposes.append(purpose)
            return VideoProcess(path, settings, progress)

        return start

    monkeypatch.setattr(scene_model, "VideoProcess", process("predict"))
    monkeypatch.setattr(images, "VideoProcess", process("images"))
    return purposes


Again = Callable[..., tuple[SceneList, str]]
both_ways = pytest.mark.parametrize("again", ["one video", "several"], indirect=True)


@pytest.fixture
def again(request: pytest.FixtureRequest, video: Path, file: Path, settings: PredictSettings) -> Again:
    """Predict the video into the file again; gives the scenes, and what was done with the existing ones."""

    def one(**options: Any) -> tuple[SceneList, str]:
        result = predict_file(video, file, settings, **options)
        return result, "".join(result.notes)

    def several(page: Path | None = None, **options: Any) -> tuple[SceneList, str]:
        (result,) = predict_videos([video], file.parent, settings, pages=page is not None, **options)
        scenes = replace(read_scene_list(file), warnings=result.warnings)
        return SceneList(**vars(scenes)), "".join(result.notes)

    return several if getattr(request, "param", "") == "several" else one


def test_a_read_only_folder_shows_its_result_and_refuses_other_requests(
    video: Path, file: Path, settings: PredictSettings, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    def refuse(path: Path, is_folder: bool = False) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(files, "_temporary", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    before, reason = file.read_bytes(), "cannot be written (read-only file system)"
    assert "unchanged; kept" in predict_file(video, file, settings).notes[0]
    (state,) = predict_videos(video, file.parent, settings)
    assert (state.status, state.error, file.read_bytes()) == ("kept", "", before)
    for change in ({"min_scene": 2.0}, {"overwrite": True}, {"page": file.parent / "a.html"}):
        refusal(lambda: predict_file(video, file, settings, **change), reason, error=BasslError)  # noqa: B023
    assert reason in predict_videos(video, file.parent, settings, overwrite=True)[0].error
    file.unlink()
    refusal(lambda: predict_file(video, file, settings), reason, error=BasslError)
    refusal(lambda: predict_videos(video, file.parent, settings), reason, error=BasslError)
    assert not reads


@both_ways
def test_the_same_request_keeps_the_file_and_reads_no_video(again: Again, file: Path, reads: list[str]) -> None:
    before, changed = file.read_bytes(), file.stat().st_mtime_ns
    scenes, note = again(device="auto")  # which decides no score
    assert (reads, file.read_bytes(), file.stat().st_mtime_ns) == ([], before, changed)
    assert scenes == SceneList(**vars(read_scene_list(file)))
    assert note == f"{file}: unchanged; kept (`overwrite=True` reads the video again)"
    content = json.loads(file.read_text())
    del content["video"]["modified"]
    file.write_text(json.dumps(content))
    again()
    assert (reads, json.loads(file.read_text())) == ([], content), "its fingerprint is the same"


@both_ways
@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"threshold": 0.01}, "threshold 0.01, was 0.5"),
        ({"scenes": 2}, "scenes 2, was None"),
        ({"min_scene": 1.5, "threshold": 0.01}, "threshold 0.01, was 0.5; min_scene 1.5, was 0.0"),
        ({"min_scene": 1.5, "drop_short": True}, "drop_short True, was False"),
    ],
)
def test_another_grouping_follows_from_stored_scores_as_from_the_video(
    again: Again,
    video: Path,
    file: Path,
    predicted: Path,
    settings: PredictSettings,
    reads: list[str],
    options: dict[str, Any],
    change: str,
) -> None:
    scenes, note = again(**options)
    assert reads == []
    assert scenes == SceneList(**vars(read_scene_list(file)))
    assert note.startswith(f"{file}: regrouped from its scores (")
    assert change in note
    assert scenes.scenes == predict_file(video, None, settings, **options).scenes
    assert again()[1].startswith(f"{file}: regrouped")
    assert read_scene_list(file).scenes == read_scene_list(predicted).scenes


SUBTITLES = "1\n00:00:00,500 --> 00:00:01,000\nHello\n\n2\n00:00:04,000 --> 00:00:05,000\nBye\n"


@pytest.mark.parametrize("name", [None, "The chase"])
def test_named_subtitles_come_into_a_result(again: Again, file: Path, reads: list[str], name: str | None) -> None:
    before = read_scene_list(file)
    before = replace(before, scenes=(replace(before.scenes[0], name=name), *before.scenes[1:]))
    before.save(file)
    words = file.with_name("words.srt")
    words.write_text(SUBTITLES)
    scenes, note = again(subtitles=words)
    assert reads == []
    assert [(line.start, line.text) for line in scenes.lines] == [(0.5, "Hello"), (4.0, "Bye")]
    assert "other subtitles" in note
    changed = SceneList(**vars(read_scene_list(file)))
    assert changed == scenes
    assert [scene.name for scene in changed.scenes] == [name or "Hello", None, "Bye"]
    assert again(subtitles=words)[0] == again()[0] == scenes
    if name is None:
        assert again(threshold=0.01)[0].lines == scenes.lines
    words.write_text("damaged")
    refusal(lambda: again(subtitles=words), "words.srt", error=BasslError)


@pytest.fixture
def beside(video: Path) -> Iterator[Path]:
    """Return where a subtitle file of the video is looked for."""
    path = video.with_suffix(".srt")
    yield path
    path.unlink()


def test_subtitles_beside_the_video_come_into_a_result(
    again: Again, file: Path, reads: list[str], beside: Path
) -> None:
    for text in (SUBTITLES, SUBTITLES.replace("Bye", "Goodbye")):
        beside.write_text(text)
        scenes, note = again()
        assert scenes.lines[1].text in text
        assert scenes.lines == read_scene_list(file).lines
        assert "other subtitles" in note
    assert "unchanged; kept" in again()[1]
    beside.write_text("damaged")
    assert again()[0].lines == scenes.lines
    assert reads == []
    beside.write_bytes((SUBTITLES.replace("Bye", "Привет") + "\n3\n00:00:09,000 --> never\nLost\n").encode("cp1251"))
    scenes, _ = again(subtitle_encoding="cp1251")
    assert (scenes.lines[1].text, reads) == ("Привет", [])
    assert scenes.warnings == (f"{beside}: 1 of 3 cues could not be read, the first in line 10",)
    assert "unchanged; kept" in again()[1]
    beside.write_text(SUBTITLES)
    scenes, _ = again(overwrite=True)
    assert (len(scenes.lines), again()[0].lines, reads) == (2, scenes.lines, ["predict"])


@pytest.mark.parametrize("options", [{"overwrite": True}, {"detector": "content"}, {"end": 4.0}, {"shots": "cuts.txt"}])
def test_the_video_is_read_again_if_scores_may_differ(
    again: Again, file: Path, reads: list[str], options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    Path("cuts.txt").write_text("40\n80\n")
    scenes, note = again(**options)
    assert (reads, note) == (["predict"], "")
    assert scenes == SceneList(**vars(read_scene_list(file)))
    if "shots" in options:  # they may have changed
        Path("cuts.txt").write_text("30\n")
        assert [shot.start_frame for shot in again(**options)[0].shots] == [0, 30]


def append_within_its_time_stamp(video: Path) -> None:
    times = video.stat().st_atime_ns, video.stat().st_mtime_ns
    video.write_bytes(video.read_bytes() + b"\0")
    os.utime(video, ns=times)


@pytest.mark.parametrize("change", [append_within_its_time_stamp, videos.change_unsampled])
def test_a_video_that_changed_is_read_again(
    settings: PredictSettings, tmp_path: Path, reads: list[str], change: Callable[[Path], None]
) -> None:
    video, out = videos.write_unsampled_video(tmp_path / "video.avi"), tmp_path / "out"

    def status() -> str:
        (result,) = predict_videos([video], out, settings)
        return result.status

    assert [status(), status(), len(reads)] == ["done", "kept", 1]
    change(video)
    assert [status(), status(), len(reads)] == ["done", "kept", 2]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "is not a scenes.json"),
        ('{"schema"', "is not usable JSON"),
        ("labels", "was not made by `bassl predict`"),
    ],
)
def test_any_other_file_is_replaced_only_with_overwrite(again: Again, file: Path, content: str, words: str) -> None:
    if content == "labels":
        content = json.dumps(json.loads(file.read_text()) | {"settings": {}})
    file.write_text(content)
    refusal(again, str(file), words, "`overwrite=True`", error=BasslError)
    assert file.read_text() == content
    again(overwrite=True)
    assert len(read_scene_list(file).shots) == 4


# --- corrected scenes -------------------------------------------------------------------------------------------------


def as_the_page_says(content: dict[str, Any]) -> None:
    content["settings"]["edited_by_hand"] = True


def merged_in_an_editor(content: dict[str, Any]) -> None:
    first, second, *others = content["scenes"]
    joined = first | {name: second[name] for name in ("end_shot", "end_frame", "end", "end_timecode")}
    content["scenes"] = [scene | {"index": index} for index, scene in enumerate([joined, *others])]


def named(content: dict[str, Any]) -> None:
    content["scenes"][0]["name"] = "The chase"


def correct(file: Path, change: Callable[[dict[str, Any]], None]) -> str:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    return file.read_text()


OTHER_REQUESTS: list[dict[str, Any]] = [{"threshold": 0.01}, {"detector": "content"}, {"overwrite": True}]


def test_corrected_scenes_stay_whatever_is_asked_for(
    video: Path, file: Path, settings: PredictSettings, reads: list[str]
) -> None:
    before, page = correct(file, named), file.with_suffix(".html")
    for options in OTHER_REQUESTS:
        refusal(
            lambda: predict_file(video, file, settings, page=page, **options),  # noqa: B023
            f"{file}: was corrected by hand and is left as it is; other scenes from its scores: bassl regroup {file}; "
            "`discard_corrections=True` replaces it",
            error=BasslError,
        )
        (result,) = predict_videos([video], file.parent, settings, **options)
        assert (result.status, result.corrected, result.shots) == ("kept", True, 4)
    assert (file.read_text(), reads, page.exists()) == (before, [], False)


@pytest.mark.parametrize("change", [as_the_page_says, merged_in_an_editor, named])
def test_corrections_are_kept_or_discarded(
    again: Again, file: Path, predicted: Path, reads: list[str], change: Any
) -> None:
    before = correct(file, change)
    assert again()[1] == f"{file}: was corrected by hand and is left as it is"
    assert (file.read_text(), reads) == (before, [])
    again(discard_corrections=True)
    assert reads == []
    assert read_scene_list(file).scenes == read_scene_list(predicted).scenes
    assert again()[1].startswith(f"{file}: unchanged; kept")


@pytest.mark.parametrize("is_corrected", [False, True])
def test_another_video_is_replaced_only_if_it_may_be(again: Again, file: Path, video: Path, is_corrected: bool) -> None:
    def of_another(content: dict[str, Any]) -> None:
        content["video"] |= {"fingerprint": "1-a", "path": "/elsewhere/video.mp4", "relative_path": "gone.mp4"}
        if is_corrected:
            named(content)

    before, requests = correct(file, of_another), [{}, {"discard_corrections": True}]
    for options in [*requests, {"overwrite": True}][: 2 + is_corrected]:
        words = f"contains the scenes of another video, not of {video}", "`overwrite=True`"
        refusal(lambda: again(**options), *words, error=BasslError)  # noqa: B023
    assert file.read_text() == before
    again(overwrite=True, discard_corrections=is_corrected)
    assert read_scene_list(file).video.path == str(video)


@pytest.mark.usefixtures("reads")  # whose folder for caches has no images
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("options", [{"describe": True}, {"threshold": 0.01}, {"overwrite": True}], ids=str)
def test_what_a_person_saves_meanwhile_stays(
    video: Path, file: Path, settings: PredictSettings, tmp_path: Path, options: dict[str, Any], several: bool
) -> None:
    saved, program, page = tmp_path / "saved.json", tmp_path / "program.py", file.with_suffix(".html")
    content = correct(Path(shutil.copy(file, saved)), named)
    program.write_text(f"import shutil; shutil.copy({str(saved)!r}, {str(file)!r}); print('Name')")
    save = lambda *facts: file.write_text(content)  # noqa: E731
    if "describe" in options:
        options, save = {"describe": shlex.join([sys.executable, str(program)])}, lambda *facts: 0
    if several:
        (result,) = predict_videos([video], tmp_path, settings, pages=True, progress=save, **options)
        message = result.error
    else:
        message = refusal(
            lambda: predict_file(video, file, settings, page=page, progress=save, **options), error=ChangedError
        )
    assert message == f"{file}: was changed meanwhile, and is left as it is; run the command again"
    assert (file.read_text(), page.exists()) == (content, False)


def test_a_corrected_result_says_where_its_video_was_moved_and_stays_if_it_changed(
    video: Path, settings: PredictSettings, tmp_path: Path
) -> None:
    first = Path(shutil.copy(video, tmp_path / "video.mp4"))
    (done,) = predict_videos([first], tmp_path / "out", settings)
    correct(done.output, named)
    before = read_scene_list(done.output)
    (tmp_path / "new").mkdir()
    moved = first.rename(tmp_path / "new" / "video.mp4")
    (kept,) = predict_videos([moved], tmp_path / "out", settings)
    assert (kept.status, kept.corrected) == ("kept", True)
    assert json.loads(done.output.read_text())["video"]["relative_path"] == "../new/video.mp4"
    assert read_scene_list(done.output) == replace(before, video=replace(before.video, path=str(moved)))
    text = done.output.read_text()
    moved.write_bytes(moved.read_bytes() + b"\0")
    (kept,) = predict_videos([moved], tmp_path / "out", settings)
    assert (kept.status, kept.notes[0].endswith("; `discard_corrections=True` replaces it")) == ("kept", True)
    assert done.output.read_text() == text


# --- pages ------------------------------------------------------------------------------------------------------------


@both_ways
def test_the_page_of_an_existing_result_is_made_from_its_shots_which_are_read_once(
    again: Again, file: Path, reads: list[str]
) -> None:
    page, before = file.with_suffix(".html"), file.read_bytes()
    again(page=page)
    assert (reads, file.read_bytes()) == (["images"], before)
    assert shows(page, read_scene_list(file))
    again(page=page, threshold=0.01)
    assert shows(page, read_scene_list(file))
    correct(file, named)
    again(page=page, threshold=0.01)
    assert "The chase" in page.read_text()
    assert reads == ["images"]


def test_a_page_that_is_not_asked_for_again_is_left_and_named(again: Again, file: Path) -> None:
    page = file.with_suffix(".html")
    again(page=page)
    before = page.read_bytes()
    assert "still shows" not in again()[1]
    old = f"{page} still shows the scenes before; renew it with: bassl report {file}"
    assert again(threshold=0.01)[1].endswith(old)
    assert page.read_bytes() == before
    assert "still shows" not in again(threshold=0.99, page=page)[1]
