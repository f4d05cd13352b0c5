"""The sound of videos: the filters by their formula, and features that change where the sound does."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from pipelines.options import with_options
from pipelines.stages.extract_sound import extract_sound
from pipelines.stages.settings import SoundSettings
from pipelines.stages.split import split
from pipelines.stores.features import features_of
from pipelines.stores.index import IndexedVideo, joined, read_index, save_index
from pipelines.video import sound
from tests import videos
from tests.command import Bassl
from tests.small_stores import features_in

SECONDS, CHANGE = 6.0, 2.5


def write_sounding_video(
    path: Path,
    wave: Callable[[np.ndarray], np.ndarray],
    delay: float = 0.0,
    codec: str = "pcm_s16le",
    rate: int = 48000,
    layout: str = "stereo",
) -> Path:
    """Write six seconds of frames, and sound that begins with the first of them; all timestamps moved by a delay."""
    samples = (0.5 * wave(np.arange(round(rate * SECONDS)) / rate) * 32767).astype(np.int16)
    images = videos.images(round(24 * SECONDS), (60,), 64, 48)
    options = {"output_ts_offset": str(delay)} if delay else {}
    return videos.write_video(path, images, container_options=options, sound=videos.Sound(samples, rate, codec, layout))


def changing(seconds: np.ndarray) -> np.ndarray:
    return np.sin(2 * np.pi * np.where(seconds < CHANGE, 440.0, 3000.0) * seconds)


def to_mel(hertz: np.ndarray | float) -> np.ndarray:
    return np.asarray(2595 * np.log10(1 + np.asarray(hertz) / 700))


def test_mel_filters_are_triangles_with_corners_evenly_spaced_in_mel() -> None:
    filters = sound.mel_filters(bands=8, fft=4096)
    hertz = np.arange(2049) * sound.RATE / 4096
    peaks = to_mel(hertz[filters.argmax(axis=1)])
    step = (to_mel(sound.HIGHEST) - to_mel(sound.LOWEST)) / 9
    np.testing.assert_allclose(np.diff(peaks), step, rtol=0.03)
    np.testing.assert_allclose(filters.max(axis=1), 1.0, atol=0.03)
    between = (hertz > hertz[filters[0].argmax()]) & (hertz < hertz[filters[-1].argmax()])
    np.testing.assert_allclose(filters.sum(axis=0)[between], 1.0, atol=1e-9)  # one rises as the other falls
    assert (sound.mel_filters().sum(axis=1) > 0).all()  # none is so narrow that it falls between two bins


def test_a_tone_is_loudest_in_its_own_band_and_twice_the_amplitude_is_log_four_more() -> None:
    times = np.arange(sound.RATE) / sound.RATE
    tone = 0.2 * np.sin(2 * np.pi * 1000 * times)
    quiet, loud = sound.log_mel(tone), sound.log_mel(2 * tone)
    assert len(quiet) == (sound.RATE - sound.WINDOW) // sound.HOP + 1
    corners = np.linspace(to_mel(sound.LOWEST), to_mel(sound.HIGHEST), sound.BANDS + 2)
    assert abs(int(quiet.mean(axis=0).argmax()) - int(np.abs(corners[1:-1] - to_mel(1000)).argmin())) <= 1
    best = int(quiet.mean(axis=0).argmax())
    np.testing.assert_allclose(loud[:, best] - quiet[:, best], np.log(4), atol=1e-3)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sounding_video(tmp_path_factory.mktemp("sounding") / "video.mkv", changing)


def test_sound_features_change_where_the_sound_changes(video: Path) -> None:
    shots = np.array([[0, 1.2], [1.2, CHANGE], [CHANGE, 4], [4, SECONDS], [SECONDS, 9]])
    actual = sound.shot_sounds(video, shots)
    assert actual.shape == (5, 2 * sound.BANDS)
    assert actual.dtype == np.float32
    changes = np.linalg.norm(np.diff(actual[:, : sound.BANDS], axis=0), axis=1)
    assert changes[1] > 5 * max(changes[0], changes[2])
    assert (actual[4, : sound.BANDS] == np.float32(np.log(sound.FLOOR))).all()  # after the end there is silence
    assert (actual[4, sound.BANDS :] == 0).all()


def test_sound_is_aligned_with_the_video(video: Path, tmp_path: Path) -> None:
    """A video whose clock begins at five seconds: the sound changes at the same frame."""
    late = write_sounding_video(tmp_path / "late.mkv", changing, delay=5.0)
    shots = np.array([[0, CHANGE], [CHANGE, SECONDS]])
    np.testing.assert_allclose(sound.shot_sounds(late, shots), sound.shot_sounds(video, shots), atol=0.05)


def test_sound_after_a_gap_in_it_is_aligned_with_the_video(video: Path, tmp_path: Path) -> None:
    with av.open(str(video)) as source, av.open(str(tmp_path / "gap.mkv"), "w") as target:
        streams = [target.add_stream_from_template(stream) for stream in source.streams]
        for packet in source.demux():
            is_lost = packet.stream.type == "audio" and packet.size and 0.5 <= packet.pts * packet.time_base < 1.5
            if packet.size and not is_lost:
                packet.stream = streams[packet.stream.index]
                target.mux(packet)
    shots = np.array([[1.6, 2.4], [2.6, 5.9]])  # without the moment when it changes
    np.testing.assert_allclose(
        sound.shot_sounds(tmp_path / "gap.mkv", shots), sound.shot_sounds(video, shots), atol=0.05
    )


def test_sound_is_aligned_with_a_video_whose_first_frame_is_damaged(tmp_path: Path) -> None:
    """As for frames, times count from the first frame that can be decoded."""
    options = videos.GROUPS | {"g": "48", "x264-params": "scenecut=0"}
    late = {"output_ts_offset": "100"}
    images = videos.images(120, (60,))
    video = videos.write_video(tmp_path / "video.ts", images, options=options, sound_seconds=5, container_options=late)
    content = bytearray(video.read_bytes())
    for packet in range(3, 40):  # of the transport stream, after the tables: the beginning of the first frame
        content[packet * 188 + 60 : packet * 188 + 188] = np.random.default_rng(packet).bytes(128)
    video.write_bytes(content)
    (actual,) = sound.shot_sounds(video, np.array([[0.0, 2.0]]))
    assert (actual[: sound.BANDS] > np.log(sound.FLOOR)).any(), "there is silence only"


def test_sound_features_of_joined_recordings_equal_those_of_each_alone(tmp_path: Path) -> None:
    """Also where the second begins a clock of its own, and has another kind of sound."""
    one = write_sounding_video(tmp_path / "one.ts", changing, codec="aac")
    two = write_sounding_video(
        tmp_path / "two.ts", lambda s: changing(SECONDS - s), codec="aac", rate=44100, layout="mono"
    )
    joined = videos.joined([one, two], tmp_path / "joined.ts")
    shots = np.array([[0.5, 2.0], [4.0, 5.5]])  # without the moments when it changes
    expected = np.concatenate([sound.shot_sounds(one, shots), sound.shot_sounds(two, shots)])
    actual = sound.shot_sounds(joined, np.concatenate([shots, shots + SECONDS]))
    np.testing.assert_allclose(actual, expected, atol=0.05)


@pytest.mark.parametrize("name", ["long.mkv", "long.mp4"])
def test_for_the_silence_of_a_part_only_its_sound_is_decoded(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = videos.tone(30).samples.copy()
    samples[22 * 48000 : 24 * 48000] = 0
    images = videos.images(60, width=32, height=32, numbered=False)
    whole = videos.write_video(
        tmp_path / "whole.mp4", images, rate=2, options=videos.GROUPS | {"g": "2"}, sound=videos.Sound(samples)
    )
    video = videos.remuxed(tmp_path / name, whole)
    lengths, read = [], sound._samples
    monkeypatch.setattr(
        sound, "_samples", lambda *part: (lengths.append(len(piece[1])) or piece for piece in read(*part))
    )
    assert sound.silences(video, 20.0, 25.0) == [pytest.approx((22, 24), abs=0.05)]
    assert sum(lengths) < 9 * sound.RATE


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the ffmpeg program is not installed")
def test_the_sound_is_of_the_program_whose_video_is_read(tmp_path: Path) -> None:
    sources = ["testsrc=s=64x48:d=4", "testsrc=s=32x24:d=4", "sine=1000:d=4", "anullsrc=d=4"]
    inputs = [word for source in sources for word in ("-f", "lavfi", "-i", source)]
    maps = [word for index in range(4) for word in ("-map", f"{index}")]
    programs = ["-program", "st=1:st=2", "-program", "st=0:st=3"]
    command = ["ffmpeg", "-v", "error", *inputs, *maps, *programs, "-t", "4", tmp_path / "two.ts"]
    subprocess.run(command, check=True)
    assert sound.silences(tmp_path / "two.ts", 0.0, 3.5) == [(0.0, 3.5)]


def index_of(path: Path, *names: str) -> Path:
    frames = np.array([[0, 60], [60, 144]])
    labels = np.zeros(2, np.int8)
    save_index(joined(path, [IndexedVideo(name, name, frames, frames / 24, labels) for name in names], {}))
    return path


def test_sound_is_stored_once_for_each_video_and_one_that_cannot_be_read_fails_alone(
    video: Path, tmp_path: Path
) -> None:
    index = index_of(tmp_path / "index.h5", "video", "silent", "pipe")
    settings = with_options(SoundSettings, index=index, output=tmp_path / "sound")
    silent = videos.write_video(tmp_path / "silent.mp4", videos.images(144, (60,)))
    os.mkfifo(pipe := tmp_path / "pipe.mp4")
    other = shutil.copy(video, tmp_path / "other.mkv")
    results = {result.video_id: result for result in extract_sound([video, silent, pipe, other], settings)}
    assert (results.pop("video").status, {result.status for result in results.values()}) == ("done", {"failed"})
    assert results["silent"].error == f"{silent}: has no sound"
    assert results["pipe"].error.startswith(f"{pipe}: is a pipe")
    assert "has no video with the id other" in results["other"].error
    assert list(features_in(settings.run.output)) == ["video"]
    stored = features_of(read_index(index_of(tmp_path / "one.h5", "video")), [settings.run.output])
    expected = sound.shot_sounds(video, np.array([[0, 2.5], [2.5, 6.0]]))
    np.testing.assert_array_equal(stored.features[np.arange(2)], expected)
    assert [result.status for result in extract_sound([video], settings)] == ["kept"]
    assert [result.status for result in extract_sound([video], settings, overwrite=True)] == ["done"]


def test_the_command_names_videos_without_sound_or_with_damaged_sound_and_continues(
    bassl: Bassl, video: Path, tmp_path: Path
) -> None:
    index = index_of(tmp_path / "index.h5", "video", "silent", "broken")
    silent = videos.write_video(tmp_path / "silent.mp4", videos.images(144, (60,), 64, 48))
    whole = write_sounding_video(tmp_path / "whole.mkv", changing, codec="aac")
    broken = videos.damaged(whole, tmp_path / "broken.mkv")
    run = bassl("extract-sound", video, silent, broken, "--index", index, "-o", tmp_path / "sound")
    assert (run.code, run.out) == (1, "")
    assert f"bassl: {silent}: has no sound" in run.err
    assert f"warning: {broken}: its sound is damaged in" in run.err
    assert f"{video}: its sound" not in run.err
    assert "2 done, 0 kept, 1 failed" in run.err
    assert list(features_in(tmp_path / "sound")) == ["broken", "video"]


def use_sound(video: Path) -> None:
    """Read, copy and encode the sound of a video with two scenes."""
    scenes = videos.scenes_of(video, (60,))
    assert scenes.video.sound_channels == 7
    assert np.isfinite(sound.shot_sounds(video, np.array([[0.0, 2.5], [2.5, 6.0]]))).all()
    split(scenes, output=video.parent / "copies")
    clips = split(scenes, output=video.parent / "encoded", exact=True)
    assert np.abs(sound.shot_sounds(clips[0].path, np.array([[0.0, 2.5]]))).max() > 0


def test_a_video_with_channels_in_an_unusual_order_is_read_copied_and_encoded(tmp_path: Path) -> None:
    """In a process of its own, which PyAV would end."""
    video = write_sounding_video(tmp_path / "video.mov", changing, layout="6.1")
    usual, mpeg_6_1_a = bytes.fromhex("00010000 0000070f"), bytes.fromhex("007d0007 00000000")  # QuickTime's 'chan'
    content = video.read_bytes()
    assert content.count(usual) == 1
    video.write_bytes(content.replace(usual, mpeg_6_1_a))
    process = multiprocessing.get_context("fork").Process(target=use_sound, args=(video,))
    process.start()
    process.join()
    assert process.exitcode == 0
