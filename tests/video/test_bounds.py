"""Videos and lists that would take hours or gigabytes: refused, or read as FFmpeg's command line reads them."""

from __future__ import annotations

import re
from pathlib import Path

import av
import numpy as np
import pytest

from pipelines.errors import VideoError
from pipelines.video import sound
from pipelines.video.decoding import VideoDecoder
from pipelines.video.reader import VideoReader
from pipelines.video.runs import Damage
from pipelines.video.shots import ReaderSettings
from tests import videos
from tests.videos import timed


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
    starts = [(time, len(samples) / sound.RATE) for time, samples in sound._samples(joined, Damage())]
    assert starts[-1][0] + starts[-1][1] == pytest.approx(4.0, abs=0.2)
    assert np.isfinite(sound.shot_sounds(joined, np.array([(0.0, 2.0), (2.0, 4.0)]))).all()


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
