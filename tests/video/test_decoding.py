"""Opening and decoding: every frame once, with its own time, and a one-line error for other files."""

import re
from pathlib import Path

import av
import numpy as np
import pytest

from pipelines.errors import VideoError
from pipelines.video import sound
from pipelines.video.decoding import VideoDecoder
from pipelines.video.reader import VideoReader
from pipelines.video.shots import ReaderSettings
from tests import videos
from tests.no_videos import NO_VIDEOS
from tests.videos import CUTS, timed


def test_every_frame_is_decoded_once_and_in_order_and_then_the_facts_are_known(video: Path) -> None:
    with VideoDecoder(video) as opened:
        frames = opened.frames()
        numbers = [videos.number_of(next(frames)[2].to_ndarray(format="rgb24"))]
        assert not hasattr(opened, "facts")
        numbers += [videos.number_of(frame.to_ndarray(format="rgb24")) for _, _, frame in frames]
    assert numbers == list(range(120))
    facts = opened.facts
    assert (facts.path, facts.width, facts.height, facts.frames, facts.frame_rate) == (str(video), 160, 96, 120, 24.0)
    assert facts.duration == pytest.approx(5.0)


@pytest.mark.parametrize("name", ["whole.mkv", "whole.avi", "whole.ts", "whole.h264", "whole.mov", "whole.flv"])
def test_times_of_a_constant_rate_video_are_regular_in_every_container(tmp_path: Path, name: str) -> None:
    times, video = timed(videos.write_video(tmp_path / name, videos.images(48, (20,))))
    # Matroska and FLV keep milliseconds.
    assert times == pytest.approx(np.arange(48) / 24, abs=1e-3)
    assert video.facts.duration == pytest.approx(2.0, abs=2e-3)
    assert video.warnings == []


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_times_are_regular_in_avi_where_frames_are_stored_in_another_order(tmp_path: Path, codec: str) -> None:
    options = {"libx264": {**videos.GROUPS, "bf": "3"}, "mpeg4": {"bf": "2"}}[codec]
    path = videos.write_video(tmp_path / "video.avi", videos.images(60), codec=codec, options=options)
    for threads in (1, 2):
        with VideoDecoder(path, threads) as video:
            assert [time for _, time, _ in video.frames()] == pytest.approx(np.arange(60) / 24, abs=1e-3)
        assert video.facts.duration == pytest.approx(2.5, abs=1e-3)
    for start in (35, 36, 37):  # around a key frame
        with VideoDecoder(path, start=start / 24) as video:
            assert [time for _, time, _ in video.frames()] == pytest.approx(np.arange(start, 60) / 24, abs=1e-3)


@pytest.mark.parametrize("name", ["variable.mkv", "variable.mp4"])
@pytest.mark.parametrize("start", [0.0, 7.0])
def test_times_of_a_variable_frame_rate_come_from_timestamps(tmp_path: Path, name: str, start: float) -> None:
    true = [i / 24 if i < 30 else 1.25 + (i - 30) / 6 for i in range(60)]
    path = videos.write_video(tmp_path / name, videos.images(60), times=[start + time for time in true])
    times, video = timed(path)
    assert times == pytest.approx(true, abs=2e-3)
    assert video.facts.duration == pytest.approx(true[-1] + 1 / 24, abs=0.2)
    assert video.warnings == []


def test_a_backward_jump_of_timestamps_continues_the_time(tmp_path: Path) -> None:
    part = videos.write_video(tmp_path / "part.ts", videos.images(48))
    times, video = timed(videos.joined([part, part], tmp_path / "joined.ts"))
    assert times == pytest.approx(np.arange(96) / 24, abs=2e-3)
    assert video.facts.duration == pytest.approx(4.0, abs=2e-3)


@pytest.mark.parametrize(("name", "options"), [("cut.mp4", {"movflags": "faststart"}), ("cut.mkv", {})])
def test_a_truncated_video_is_read_to_its_end_with_a_warning(
    tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    whole = videos.write_video(tmp_path / f"whole_{name}", videos.images(120, CUTS), container_options=options)
    times, video = timed(videos.truncated(whole, tmp_path / name, 0.6))
    assert 40 < len(times) < 110
    assert any("ends early" in warning and str(tmp_path / name) in warning for warning in video.warnings)
    assert all("\n" not in warning for warning in video.warnings)


@pytest.mark.parametrize("sound_seconds", [1.0, 9.0])
@pytest.mark.parametrize("name", ["sound.mp4", "sound.ts"])
def test_sound_longer_or_shorter_than_the_video_is_no_early_end(
    tmp_path: Path, name: str, sound_seconds: float
) -> None:
    video = timed(videos.write_video(tmp_path / name, videos.images(72), sound_seconds=sound_seconds))[1]
    assert video.warnings == []
    assert video.facts.duration == pytest.approx(3.0, abs=2e-3)


@pytest.mark.parametrize("name", ["noise.mp4", "noise.mkv"])
def test_damage_in_the_middle_gives_a_warning_and_the_rest_is_read(tmp_path: Path, name: str) -> None:
    options = {"preset": "ultrafast", "crf": "12", "g": "12"}
    whole = videos.write_video(tmp_path / f"whole_{name}", videos.images(120, CUTS, 320, 192), options=options)
    times, video = timed(videos.damaged(whole, tmp_path / name, 0.45, 0.5))
    assert 40 < len(times) <= 120
    assert (np.diff(times) > 0).all()
    assert any("damaged" in warning for warning in video.warnings)


@pytest.mark.parametrize(("second_table", "frames"), [(4096, 200), (4100, 100)], ids=["same program", "another"])
def test_a_recording_is_read_on_after_its_streams_get_new_ids_but_not_into_another_program(
    tmp_path: Path, second_table: int, frames: int
) -> None:
    # 100 frames of noise are longer than what FFmpeg reads to find the streams of a video.
    noise = np.random.default_rng(0).integers(0, 255, (100, 240, 320, 3)).astype(np.uint8)
    parts = []
    for name, start_id, table_id in (("a.ts", 256, 4096), ("b.ts", 400, second_table)):
        options = {"mpegts_start_pid": str(start_id), "mpegts_pmt_start_pid": str(table_id)}
        parts.append(videos.write_video(tmp_path / name, noise, codec="mpeg2video", container_options=options))
    assert len(timed(videos.joined(parts, tmp_path / "video.ts"))[0]) == frames


@pytest.mark.parametrize("kind", NO_VIDEOS)
def test_a_file_that_is_not_a_video_gives_one_line_that_names_it(tmp_path: Path, kind: str) -> None:
    name, make, reason = NO_VIDEOS[kind]
    path = make(tmp_path / name)
    with pytest.raises(VideoError) as caught:
        timed(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert reason in message
    assert "\n" not in message


def test_a_file_name_with_a_colon_is_not_a_protocol(video: Path, tmp_path: Path) -> None:
    path = tmp_path / "http:video.mp4"
    path.write_bytes(video.read_bytes())
    assert len(timed(path)[0]) == 120


# --- hours and gigabytes that are none -------------------------------------------------------------------------------


def recording(path: Path, start: float, seconds: float = 0.0) -> Path:
    options = {"output_ts_offset": str(start)}
    images = videos.images(48, (20,))
    return videos.write_video(path, images, container_options=options, sound_seconds=seconds)


def test_a_forward_jump_of_timestamps_is_read_without_the_gap(tmp_path: Path) -> None:
    parts = [recording(tmp_path / f"{start}.ts", start) for start in (0, 50_000, 80_000)]
    joined = videos.joined(parts, tmp_path / "joined.ts")
    times, video = timed(joined)
    assert len(times) == 144
    assert times == pytest.approx([i / 24 for i in range(144)], abs=0.1)
    assert video.facts.duration == pytest.approx(6.0, abs=0.1)
    (warning,) = video.warnings
    assert warning.startswith(f"{joined}: its clock jumps forward 2 time(s), by 799")


def test_sound_stays_aligned_with_frames_across_a_timestamp_jump(tmp_path: Path) -> None:
    parts = [recording(tmp_path / f"{start}.ts", start, seconds=2.0) for start in (0, 50_000)]
    joined = videos.joined(parts, tmp_path / "joined.ts")
    first, second, after = sound.shot_sounds(joined, np.array([(0.5, 1.5), (2.5, 3.5), (4.5, 5.5)]))[:, : sound.BANDS]
    assert second.max() == pytest.approx(first.max(), abs=0.05)
    assert first.max() > 5 + after.max()


def test_long_gaps_between_frames_of_a_slow_video_are_kept(tmp_path: Path) -> None:
    seconds = [0.0, 30.0, 600.0, 630.0]
    path = videos.write_video(tmp_path / "slides.mkv", videos.images(4, (1, 2, 3)), times=seconds)
    times, video = timed(path)
    assert times == seconds
    assert not any("clock" in warning for warning in video.warnings)


def test_a_frame_that_would_take_gigabytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match=r"bomb\.gif: has frames of 16000 x 16000 pixels"):
        VideoDecoder(videos.write_huge_frame(tmp_path / "bomb.gif"))


def test_a_video_whose_frame_size_is_known_only_later_is_read_from_there(tmp_path: Path) -> None:
    whole = videos.write_video(
        tmp_path / "whole.ts", videos.images(480, (240,), 64, 48), options={"preset": "ultrafast", "g": "24"}
    )
    content = bytearray(whole.read_bytes())
    header, filler = b"\0\0\1\x67", 0x6C  # H.264's sequence parameter set has the size
    for match in re.finditer(header, content[: len(content) * 6 // 10]):
        content[match.end() - 1] = filler
    late = tmp_path / "late.ts"
    late.write_bytes(content)
    with av.open(str(late)) as container:
        assert (container.streams.video[0].width, container.streams.video[0].height) == (0, 0)
    reader = VideoReader(late, ReaderSettings())
    (shot,) = reader
    assert (reader.facts.width, reader.facts.height) == (64, 48)
    assert shot.keyframes[0].shape == (48, 64, 3)
    assert any("damaged" in warning for warning in reader.warnings)


@pytest.mark.parametrize(
    "text",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\npart.ts\n#EXT-X-ENDLIST\n",
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1000000\nmedia.m3u8\n",
        "ffconcat version 1.0\nfile part.ts\n",
        ";FFMETADATA1\n" + "".join(f"key{i}=\n" for i in range(300_000)),
    ],
    ids=["HLS", "HLS of playlists", "concat", "a list of tags"],
)
def test_playlists_and_lists_of_tags_are_not_opened(tmp_path: Path, text: str) -> None:
    recording(tmp_path / "part.ts", 0)
    (tmp_path / "list.m3u8").write_text(text)
    with pytest.raises(VideoError, match=r"list\.m3u8: not a video that can be read .*; of a playlist name one of its"):
        VideoDecoder(tmp_path / "list.m3u8")
