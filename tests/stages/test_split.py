"""Videos cut into scenes: which frames and how much sound each piece has, and that no partial files are left."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from pipelines.errors import BasslError, VideoError
from pipelines.options import with_options
from pipelines.scenes import SceneList, group_shots
from pipelines.stages.split import SplitSettings, split, write_chapters
from pipelines.video.cutting.muxing import CopyWriter
from tests import videos
from tests.running import ENVIRONMENT
from tests.videos import CUTS, FRAMES, GROUPS, numbers, scenes_of


def lengths(path: Path) -> list[float]:
    """How long each track lasts, in seconds; pictures first."""
    with av.open(str(path)) as container:
        found = []
        for track in (*container.streams.video, *container.streams.audio):
            if track.duration is not None and track.time_base is not None:
                found.append(float(track.duration * track.time_base))
        return found


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five seconds at 23.976, with sound."""
    return videos.write_video(
        tmp_path_factory.mktemp("split") / "My video.mp4",
        videos.pictures(FRAMES, CUTS),
        rate=Fraction(24000, 1001),
        options=GROUPS,
        sound_seconds=5,
    )


@pytest.fixture(scope="module")
def scenes(video: Path) -> SceneList:
    return scenes_of(video)


def part_of(whole: SceneList) -> SceneList:
    """The second and the third of four scenes, as of a part of the video."""
    shots = tuple(replace(shot, index=i) for i, shot in enumerate(whole.shots[1:3]))
    video = replace(whole.video, frames=shots[-1].end_frame, duration=shots[-1].end)
    settings = {"start": shots[0].start, "end": shots[-1].end}
    return SceneList(video, settings, shots, group_shots(shots, [0, 1]))


# --- copies ---------------------------------------------------------------------------------------------------------


def test_copies_begin_at_key_frames_and_report_by_how_much(video: Path, scenes: SceneList, tmp_path: Path) -> None:
    pieces = split(video, scenes, output=tmp_path)
    assert [piece.path.name for piece in pieces] == [f"My_video-scene-00{i}.mp4" for i in (1, 2, 3, 4)]
    assert sorted(tmp_path.iterdir()) == [piece.path for piece in pieces]
    frame = 1001 / 24000
    for piece, start, end in zip(pieces, (0, *CUTS), (*CUTS, FRAMES), strict=True):
        found = numbers(piece.path)
        assert found == list(range(found[0], found[-1] + 1))
        assert found[0] == start // 12 * 12
        assert piece.early == pytest.approx((start - found[0]) * frame, abs=1e-4)
        assert piece.late == pytest.approx((found[-1] + 1 - end) * frame, abs=1e-4)
        assert 0 <= found[-1] + 1 - end <= 2
        pictures, sound = lengths(piece.path)
        assert pictures == pytest.approx(len(found) * frame, abs=0.001)
        assert sound == pytest.approx(piece.end - piece.start + piece.early, abs=0.03)
    assert pieces[1].early > 0.2


def test_copies_contain_the_packets_of_the_video_unchanged(video: Path, scenes: SceneList, tmp_path: Path) -> None:
    def pictures(path: Path) -> list[bytes]:
        with av.open(str(path)) as container:
            return [bytes(packet) for packet in container.demux(video=0) if packet.size]

    whole = pictures(video)
    for piece in split(video, scenes, output=tmp_path):
        part = pictures(piece.path)
        at = whole.index(part[0])
        assert part == whole[at : at + len(part)]


@pytest.mark.parametrize(
    ("ending", "codec", "sound"),
    [(".mkv", "libx264", 5.0), (".webm", "libvpx", 0.0), (".ts", "libx264", 5.0), (".mov", "libx264", 5.0)],
)
def test_copies_keep_the_container_format(tmp_path: Path, ending: str, codec: str, sound: float) -> None:
    options = GROUPS if codec == "libx264" else {"g": "12", "deadline": "realtime", "cpu-used": "8", "b": "2M"}
    path = videos.write_video(
        tmp_path / f"video{ending}", videos.pictures(FRAMES, CUTS), codec=codec, options=options, sound_seconds=sound
    )
    pieces = split(path, scenes_of(path), output=tmp_path / "out")
    for piece, start, end in zip(pieces, (0, *CUTS), (*CUTS, FRAMES), strict=True):
        assert piece.path.suffix == ending
        found = numbers(piece.path)
        assert found[0] <= start
        assert start - found[0] < 12
        assert found == list(range(found[0], found[-1] + 1))
        assert end <= found[-1] + 1 <= end + 2
        assert piece.early == pytest.approx((start - found[0]) / 24, abs=0.002)


def test_copies_of_avi_keep_sound_with_its_frames_where_frames_are_stored_in_another_order(tmp_path: Path) -> None:
    def decoding_times(path: Path) -> list[dict[bytes, float]]:
        with av.open(str(path)) as container:
            kinds: dict[str, dict[bytes, float]] = {"video": {}, "audio": {}}
            for packet in container.demux():
                if packet.size:
                    assert packet.dts is not None
                    kinds[packet.stream.type].setdefault(bytes(packet), float(packet.dts * packet.time_base))
            return list(kinds.values())

    shown, options = videos.pictures(FRAMES, CUTS), {"bf": "2", "g": "12"}
    path = videos.write_video(tmp_path / "video.avi", shown, codec="mpeg4", options=options, sound_seconds=5)
    whole = decoding_times(path)
    for piece in split(path, scenes_of(path), output=tmp_path / "out"):
        pictures, sound = (next(iter(times.items())) for times in decoding_times(piece.path))
        early = whole[0][pictures[0]] - pictures[1]
        assert whole[1][sound[0]] - sound[1] == pytest.approx(early, abs=0.02)


def test_copies_of_avi_are_refused_where_it_does_not_say_when_frames_are_shown(tmp_path: Path) -> None:
    path = videos.write_video(tmp_path / "video.avi", videos.pictures(FRAMES, CUTS), options=GROUPS)
    scenes, settings = scenes_of(path), with_options(SplitSettings, output=tmp_path / "out")
    for copy in (split, write_chapters):
        with pytest.raises(VideoError, match=r"video\.avi: AVI does not say when .*mkvmerge"):
            copy(path, scenes, settings)
    pieces = split(path, scenes, replace(settings, exact=True))
    assert [numbers(piece.path)[0] for piece in pieces] == [0, *CUTS]


def test_a_video_that_ffmpeg_decodes_but_cannot_encode_is_copied(tmp_path: Path) -> None:
    """FFmpeg has dav1d for AV1, which only decodes."""
    options = {"preset": "12", "g": "12", "svtav1-params": "scd=0"}
    path = videos.write_video(tmp_path / "video.mp4", videos.pictures(48, (24,)), codec="libsvtav1", options=options)
    scenes = scenes_of(path, (24,))
    pieces = split(path, scenes, output=tmp_path)
    assert [len(videos.decoded(piece.path)) for piece in pieces] == [24, 24]
    with av.open(str(write_chapters(path, scenes, output=tmp_path))) as container:
        assert len(container.chapters()) == 2
        assert container.streams.video[0].frames == 48


def test_prores_with_alpha_and_hevc_of_phones_keep_their_codec_tags(tmp_path: Path) -> None:
    prores = {"codec": "prores_ks", "pixel_format": "yuva444p10le", "options": {"profile": "4444"}}
    deep = videos.write_video(tmp_path / "deep.mov", videos.pictures(48, (24,)), **prores)  # type: ignore[arg-type]
    hevc = videos.write_video(tmp_path / "hevc.mp4", videos.pictures(48, (24,)), codec="libx265")
    phone = tmp_path / "phone.mov"
    with av.open(str(hevc)) as source, av.open(str(phone), "w") as container:
        stream = container.add_stream_from_template(source.streams.video[0])
        stream.codec_context.codec_tag = "hvc1"
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                container.mux(packet)
    for video, tag in ((deep, "ap4h"), (phone, "hvc1")):
        scenes = scenes_of(video, (24,))
        pieces = [piece.path for piece in split(video, scenes, output=tmp_path / "out")]
        for made in (
            video,
            *pieces,
            write_chapters(video, scenes, output=tmp_path / "out"),
        ):
            with av.open(str(made)) as container:
                assert container.streams.video[0].codec_context.codec_tag == tag


def test_a_subtitle_is_in_the_piece_in_which_it_begins_and_ends_with_it(tmp_path: Path) -> None:
    plain = videos.write_video(tmp_path / "plain.mp4", videos.pictures(96, (48,)), options=GROUPS)
    (tmp_path / "words.srt").write_text(
        "1\n00:00:00,500 --> 00:00:01,000\nHello\n\n2\n00:00:01,500 --> 00:00:03,500\nAcross the cut\n\n"
        "3\n00:00:03,000 --> 00:00:03,500\nBye\n"
    )
    video = tmp_path / "video.mkv"
    with (
        av.open(str(plain)) as pictures,
        av.open(str(tmp_path / "words.srt")) as words,
        av.open(str(video), "w") as out,
    ):
        into = [out.add_stream_from_template(one.streams[0]) for one in (pictures, words)]
        packets = [(packet, into[0]) for packet in pictures.demux() if packet.size]
        packets += [(packet, into[1]) for packet in words.demux() if packet.size]
        for packet, stream in sorted(packets, key=lambda each: float(each[0].dts * each[0].time_base)):
            packet.stream = stream
            out.mux(packet)

    def subtitles(path: Path) -> list[tuple[float, float, bytes]]:
        with av.open(str(path)) as container:
            packets = [packet for packet in container.demux(subtitles=0) if packet.size]
            tick = container.streams.subtitles[0].time_base
            return [(float(p.pts * tick), float(p.duration * tick), bytes(p)) for p in packets]

    first, second = (piece.path for piece in split(video, scenes_of(video, (48,)), output=tmp_path / "out"))
    assert subtitles(first) == [(0.5, 0.5, b"Hello"), (1.5, 0.5, b"Across the cut")]
    assert subtitles(second) == [(1.0, 0.5, b"Bye")]


@pytest.mark.parametrize("frames", [1, 2])
def test_a_video_so_short_that_decoders_return_all_frames_at_the_end_is_copied(tmp_path: Path, frames: int) -> None:
    options = {"preset": "fast", "crf": "12"}  # with frames in another order than they are shown
    path = videos.write_video(tmp_path / "video.mp4", videos.pictures(frames), options=options)
    (piece,) = split(path, scenes_of(path, ()), output=tmp_path / "out")
    assert numbers(piece.path) == list(range(frames))


def test_frames_that_depend_on_missing_frames_are_left_out(tmp_path: Path) -> None:
    # Open groups: the frames shown just before a keyframe come after it in the file, and need the group before.
    path = videos.write_video(
        tmp_path / "video.mp4",
        videos.pictures(FRAMES, CUTS),
        options=GROUPS | {"bf": "3", "x264-params": "scenecut=0:open-gop=1:b-adapt=0:keyint=12:min-keyint=12"},
    )
    with av.open(str(path)) as container:
        packets = [p for p in container.demux(video=0) if p.size]
    keys = [i for i, p in enumerate(packets) if p.is_keyframe]
    assert any(packets[i + 1].pts < packets[i].pts for i in keys[1:-1]), "the video has no open group"
    for piece, start in zip(split(path, scenes_of(path), output=tmp_path / "out"), (0, *CUTS), strict=True):
        found = numbers(piece.path)
        assert found == list(range(found[0], found[-1] + 1))
        assert piece.early == pytest.approx((start - found[0]) / 24, abs=0.002)
        assert piece.late < 0.2


def test_all_sound_tracks_and_their_languages_are_kept(tmp_path: Path) -> None:
    path = with_two_languages(tmp_path / "video.mkv")
    for exact in (False, True):
        pieces = split(path, scenes_of(path, (48,)), output=tmp_path / str(exact), exact=exact)
        for piece in pieces:
            with av.open(str(piece.path)) as container:
                assert [track.language for track in container.streams.audio] == ["fra", "deu"]
                heard = [sum(f.samples for f in container.decode(audio=0)) / 48000]
            assert heard[0] == pytest.approx(piece.end - piece.start + piece.early, abs=0.05)


def test_overlapping_sound_and_channel_changes_are_handled(tmp_path: Path) -> None:
    # As where a broadcast goes from stereo to mono: two recordings, the second beginning before the first has ended.
    parts = []
    for number, (layout, offset) in enumerate((("stereo", 0), ("mono", 2400))):
        path = tmp_path / f"{number}.ts"
        with av.open(str(path), "w", container_options={"mpegts_copyts": "1"}) as container:
            stream = container.add_stream("libx264", rate=24, options=GROUPS | {"bf": "0"})
            stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
            sound = container.add_stream("mp2", rate=48000, layout=layout)
            for index, picture in enumerate(list(videos.pictures(96))[48 * number : 48 * number + 48], 48 * number):
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                frame.pts, frame.time_base = index, Fraction(1, 24)
                container.mux(stream.encode(frame))
                count = 2 if layout == "stereo" else 1
                wave = av.AudioFrame.from_ndarray(np.zeros((1, 2000 * count), np.int16), format="s16", layout=layout)
                wave.sample_rate, wave.pts, wave.time_base = 48000, index * 2000 - offset, Fraction(1, 48000)
                container.mux(sound.encode(wave))
            container.mux(stream.encode())
            container.mux(sound.encode())
        parts.append(path)
    path = videos.joined(parts, tmp_path / "video.ts")
    pieces = split(path, scenes_of(path, (24,)), output=tmp_path / "out", exact=True)
    assert [numbers(piece.path) for piece in pieces] == [list(range(24)), list(range(24, 96))]
    with av.open(str(pieces[1].path)) as container:
        heard = sum(frame.samples for frame in container.decode(audio=0)) / 48000
    assert heard == pytest.approx(3, abs=0.1)
    copies = split(path, scenes_of(path, (24,)), output=tmp_path / "copies")
    assert [numbers(piece.path) for piece in copies] == [list(range(24)), list(range(24, 96))]


def with_two_languages(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=24, options=GROUPS)
        stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
        tracks = [container.add_stream("aac", rate=48000) for _ in range(2)]
        for track, language in zip(tracks, ("fra", "deu"), strict=True):
            track.metadata["language"] = language
        for index, picture in enumerate(videos.pictures(96, (48,))):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            container.mux(stream.encode(frame))
            for track in tracks:
                silence = av.AudioFrame.from_ndarray(np.zeros((2, 2000), np.float32), format="fltp", layout="stereo")
                silence.sample_rate, silence.pts, silence.time_base = 48000, index * 2000, Fraction(1, 48000)
                container.mux(track.encode(silence))
        for track in (stream, *tracks):
            container.mux(track.encode())
    return path


# --- exact ----------------------------------------------------------------------------------------------------------


def test_exact_pieces_have_exactly_the_frames_of_their_scenes(video: Path, scenes: SceneList, tmp_path: Path) -> None:
    pieces = split(video, scenes, output=tmp_path, exact=True)
    assert sorted(tmp_path.iterdir()) == [piece.path for piece in pieces]
    for piece, start, end in zip(pieces, (0, *CUTS), (*CUTS, FRAMES), strict=True):
        assert (piece.early, piece.late) == (0, 0)
        assert numbers(piece.path) == list(range(start, end))
        pictures, sound = lengths(piece.path)
        assert pictures == pytest.approx(piece.end - piece.start, abs=0.002)
        assert sound == pytest.approx(pictures, abs=0.006)  # the video's own ends 5 ms before its pictures


def test_exact_pieces_look_and_sound_like_the_video(video: Path, scenes: SceneList, tmp_path: Path) -> None:
    whole = videos.decoded(video)
    pieces = split(video, scenes, output=tmp_path, exact=True)
    for piece, start in zip(pieces, (0, *CUTS), strict=True):
        for number, picture in enumerate(videos.decoded(piece.path)):
            error = (picture.astype(float) - whole[start + number]) ** 2
            assert 10 * np.log10(255**2 / error.mean()) > 30
    # The video's tone is a wave of 440 Hz: it goes on where the piece before left off.
    with av.open(str(pieces[1].path)) as container:
        heard = np.concatenate([frame.to_ndarray()[0] for frame in container.decode(audio=0)])
    at = (np.arange(len(heard)) + round(pieces[1].start * 48000)) / 48000
    expected = 0.1 * np.sin(at * 440 * 2 * np.pi)
    middle = slice(4800, 48000)
    assert np.corrcoef(heard[middle], expected[middle])[0, 1] > 0.99


def test_exact_pieces_have_sound_where_their_first_frame_is_the_last_of_a_group(tmp_path: Path) -> None:
    options = {**GROUPS, "g": "48"}
    video = videos.write_video(tmp_path / "video.mp4", videos.pictures(96, (47,)), options=options, sound_seconds=4)
    whole = scenes_of(video, (47,))
    shots = (replace(whole.shots[1], index=0),)
    part = replace(whole, shots=shots, scenes=group_shots(shots, [0]), settings={"start": shots[0].start})
    (piece,) = split(video, part, output=tmp_path / "out", exact=True)
    pictures, sound = lengths(piece.path)
    assert numbers(piece.path) == list(range(47, 96))
    assert sound == pytest.approx(pictures, abs=0.05)


def test_a_scene_without_a_frame_gives_a_one_line_error(tmp_path: Path) -> None:
    times = [i / 24 if i <= 30 else 2 + i / 24 for i in range(60)]
    path = videos.write_video(tmp_path / "video.mkv", videos.pictures(60, (30,)), times=times)
    listed = scenes_of(path, (31, 32))
    first, second, third = listed.shots
    # Frame 30 is held from 1.25 to 3.29 s.
    shots = replace(first, end=2.0), replace(second, start=2.0, end=2.5), replace(third, start=2.5)
    whole = replace(listed, shots=shots, scenes=group_shots(shots, range(3)))
    with pytest.raises(VideoError, match="has no frame of scene 2; correct the scenes"):
        split(path, whole, output=tmp_path / "out", exact=True)
    assert not list((tmp_path / "out").iterdir())


def test_a_variable_frame_rate_is_kept(tmp_path: Path) -> None:
    times = [i / 24 if i < 30 else 5 + i / 6 for i in range(60)]
    path = videos.write_video(tmp_path / "video.mkv", videos.pictures(60, (30,)), times=times)
    pieces = split(path, scenes_of(path, (30,)), output=tmp_path / "out", exact=True)
    for piece, part in zip(pieces, (times[:30], times[30:]), strict=True):
        with av.open(str(piece.path)) as container:
            shown = [float(frame.time or 0) for frame in container.decode(video=0)]
        assert shown == pytest.approx([time - part[0] for time in part], abs=0.0015)
    assert [numbers(piece.path) for piece in pieces] == [list(range(30)), list(range(30, 60))]


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_rotated_phone_video_becomes_upright(tmp_path: Path, turns: int) -> None:
    plain = videos.write_video(tmp_path / "plain.mp4", videos.pictures(48, (24,)), options=GROUPS)
    path = videos.rotated(plain, tmp_path / "video.mp4", turns)
    upright = np.rot90(videos.decoded(plain)[24], -turns)
    exact = split(path, scenes_of(path, (24,)), output=tmp_path / "exact", exact=True)[1].path
    shown = videos.decoded(exact)[0]
    assert shown.shape == upright.shape
    assert np.abs(shown.astype(int) - upright).mean() < 4
    copied = split(path, scenes_of(path, (24,)), output=tmp_path / "copied")[1].path
    with av.open(str(copied)) as container:
        assert (-round(next(container.decode(video=0)).rotation / 90)) % 4 == turns


@pytest.mark.parametrize("order", ["tff", "bff"])
def test_interlaced_videos_stay_interlaced(tmp_path: Path, order: str) -> None:
    options = {**GROUPS, "x264-params": f"scenecut=0:{order}=1"}
    path = videos.write_video(tmp_path / "video.mp4", videos.pictures(48, (24,)), options=options)
    for piece in split(path, scenes_of(path, (24,)), output=tmp_path / "exact", exact=True):
        with av.open(str(piece.path)) as container:
            assert all(frame.interlaced_frame for frame in container.decode(video=0))


@pytest.mark.parametrize(("width", "height", "layout"), [(17, 13, "yuv444p"), (160, 96, "yuv420p10le")])
def test_odd_frame_sizes_and_high_bit_depths_are_encoded(tmp_path: Path, width: int, height: int, layout: str) -> None:
    path = videos.write_video(
        tmp_path / "video.mkv",
        videos.pictures(20, (10,), width, height),
        pixel_format=layout,
        pixel_aspect=Fraction(4, 3),
    )
    pieces = split(path, scenes_of(path, (10,)), output=tmp_path / "out", exact=True)
    with av.open(str(pieces[1].path)) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.pix_fmt) == (width, height, layout)
        assert stream.sample_aspect_ratio == Fraction(4, 3)
        assert sum(1 for _ in container.decode(video=0)) == 10


# --- chapters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".mp4", ".mkv", ".ts"])
def test_a_copy_with_chapters_has_all_streams_and_the_scenes_as_chapters(tmp_path: Path, ending: str) -> None:
    path = videos.write_video(
        tmp_path / f"video{ending}",
        videos.pictures(FRAMES, CUTS),
        options=GROUPS,
        sound_seconds=5,
        rate=Fraction(24000, 1001),
    )
    scenes = scenes_of(path)
    copy = write_chapters(path, scenes, output=tmp_path / "out")
    assert copy.name == f"video-chapters{'.mkv' if ending == '.ts' else ending}"
    with av.open(str(copy)) as container:
        chapters = container.chapters()
        assert [chapter["metadata"]["title"] for chapter in chapters] == [f"Scene {i}" for i in (1, 2, 3, 4)]
        picture = container.streams.video[0]
        shown = [float(frame.time or 0) for frame in container.decode(picture)]
    for chapter, start in zip(chapters, (0, *CUTS), strict=True):
        at = float(chapter["start"] * (chapter["time_base"] or 0))
        # A player that jumps there shows the scene's first frame.
        assert at == pytest.approx(0 if start == 0 else shown[start], abs=0.0015)
    assert numbers(copy) == numbers(path)
    assert len(lengths(copy)) == (2 if ending == ".mp4" else 0)
    assert list((tmp_path / "out").iterdir()) == [copy]


def test_the_camera_timecode_is_kept_in_a_whole_copy_but_not_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "camera.mov"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=24, options=GROUPS)
        stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
        stream.metadata["timecode"] = "10:00:00:00"
        for picture in videos.pictures(48, (24,)):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    scenes = scenes_of(path, (24,))
    copy = write_chapters(path, scenes, output=tmp_path / "out")
    piece = split(path, scenes, output=tmp_path / "out")[1].path
    found = []
    for made in (copy, piece):
        with av.open(str(made)) as container:
            found.append(container.streams.video[0].metadata.get("timecode"))
    assert found == ["10:00:00:00", None]


def test_existing_chapters_are_replaced(video: Path, scenes: SceneList, tmp_path: Path) -> None:
    first = write_chapters(video, scenes, output=tmp_path / "once")
    again = write_chapters(first, scenes_of(first, (61,)), output=tmp_path / "twice")
    with av.open(str(again)) as container:
        assert len(container.chapters()) == 2
        assert len(container.streams.audio) == 1


# --- what cannot be done --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [False, True])
def test_the_scenes_of_another_video_are_refused(tmp_path: Path, scenes: SceneList, exact: bool) -> None:
    other = videos.write_video(tmp_path / "other.mp4", videos.pictures(60), options=GROUPS)
    with pytest.raises(VideoError, match=r"other\.mp4: has .* give the scenes\.json of this video"):
        split(other, scenes, output=tmp_path / "out", exact=exact)
    longer = videos.write_video(tmp_path / "longer.mp4", videos.pictures(240), options=GROUPS)
    with pytest.raises(VideoError, match=r"longer\.mp4: has .* give the scenes\.json of this video"):
        split(longer, scenes, output=tmp_path / "out", exact=exact)
    with pytest.raises(VideoError, match=r"longer\.mp4: has .* give the scenes\.json of this video"):
        write_chapters(longer, scenes, output=tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("exact", [False, True])
def test_a_video_that_ends_within_the_part_that_the_scenes_cover_is_refused(
    scenes: SceneList, tmp_path: Path, exact: bool
) -> None:
    other = videos.write_video(tmp_path / "other.mp4", videos.pictures(60), options=GROUPS)
    with pytest.raises(VideoError, match=r"other\.mp4: has .* give the scenes\.json of this video"):
        split(other, part_of(scenes), output=tmp_path / "out", exact=exact)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("exact", [False, True])
def test_handles_of_a_part_of_a_video_end_with_the_video(
    video: Path, scenes: SceneList, tmp_path: Path, exact: bool
) -> None:
    first, last = split(video, part_of(scenes), output=tmp_path / "out", exact=exact, expand=2.0)
    assert (first.start, first.end) == (0.0, scenes.scenes[1].end + 2)
    assert last.end == pytest.approx(scenes.video.duration, abs=0.01)
    assert numbers(last.path)[-1] == FRAMES - 1


def test_handles_of_a_part_end_with_the_video_also_where_its_clock_begins_later(tmp_path: Path) -> None:
    late = videos.write_video(
        tmp_path / "late.mkv", videos.pictures(FRAMES), container_options={"output_ts_offset": "30"}
    )
    whole = scenes_of(late)
    (*_, last) = split(late, part_of(whole), output=tmp_path / "out", expand=5.0)
    assert last.end == pytest.approx(whole.video.duration, abs=0.01)


def test_existing_pieces_are_replaced_only_with_overwrite(video: Path, scenes: SceneList, tmp_path: Path) -> None:
    old = tmp_path / "My_video-scene-003.mp4"
    old.write_text("old")
    with pytest.raises(BasslError, match=r"scene-003\.mp4: already exists; .* --overwrite"):
        split(video, scenes, output=tmp_path)
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_text() == "old"
    split(video, scenes, output=tmp_path, overwrite=True)
    assert len(list(tmp_path.iterdir())) == 4
    assert numbers(old)[0] == 60


def test_the_video_is_never_overwritten(video: Path, scenes: SceneList, tmp_path: Path) -> None:
    (tmp_path / "My_video-scene-002.mp4").symlink_to(video)
    before = video.read_bytes()
    with pytest.raises(BasslError, match="is an input of this command"):
        split(video, scenes, output=tmp_path, overwrite=True)
    assert video.read_bytes() == before


def test_clips_of_videos_with_the_same_name_are_named_by_id(
    video: Path, scenes: SceneList, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a_My_video", "b_My_video"):
        split(video, replace(scenes, video=replace(scenes.video, id=name)), SplitSettings())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_My_video-scenes", "b_My_video-scenes"]


@pytest.mark.parametrize("name", ["..%2f..\\..mp4", "-rf *.mp4", "file:a|b.mp4", "ü \n'\".mp4"])
def test_scene_names_become_safe_file_names(video: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.symlink_to(video)
    for piece in split(path, scenes_of(path), output=tmp_path / "out"):
        assert piece.path.parent == tmp_path / "out"
        assert not set("\\/:|*'\"\n ") & set(piece.path.name)
        assert not piece.path.name.startswith((".", "-"))
    assert {path.name for path in tmp_path.iterdir()} == {name, "out"}


@pytest.mark.parametrize("exact", [False, True])
def test_an_interrupted_split_leaves_no_files(video: Path, scenes: SceneList, tmp_path: Path, exact: bool) -> None:
    def fails(stage: str, done: float, total: float | None) -> None:
        if done > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        split(video, scenes, with_options(SplitSettings, output=tmp_path, exact=exact), fails)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_gives_a_one_line_error(
    video: Path, scenes: SceneList, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, packet: object) -> None:
        raise av.error.OSError(28, "No space left on device", "x")

    monkeypatch.setattr(CopyWriter, "add", full)
    with pytest.raises(BasslError, match=r"the clips of .*My video\.mp4 cannot be written \(no space left on device\)"):
        split(video, scenes, output=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_kill_leaves_no_incomplete_piece_under_its_final_name(video: Path, scenes: SceneList, tmp_path: Path) -> None:
    scenes.save(tmp_path / "scenes.json")
    code = (
        "import sys, time; from pathlib import Path; from pipelines.stages.split import split\n"
        "from pipelines.datasets.scene_list import read_scene_list\n"
        "def slowly(stage, done, total):\n"
        "    if done > 3: print('now', flush=True); time.sleep(60)\n"
        "split(Path(sys.argv[1]), read_scene_list(Path('scenes.json')), progress=slowly, output='out')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(video)],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"now\n"
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    process.stdout.close()
    assert [path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")] == []


def test_for_packets_without_timestamps_an_exact_cut_is_suggested(tmp_path: Path) -> None:
    path = videos.write_video(
        tmp_path / "video.h264", videos.pictures(FRAMES, CUTS), options=GROUPS, container_format="h264"
    )
    scenes = scenes_of(path)
    with pytest.raises(VideoError, match=r"video\.h264: .* give --exact"):
        split(path, scenes, output=tmp_path / "out")
    pieces = split(path, scenes, output=tmp_path / "out", exact=True)
    assert [numbers(piece.path)[0] for piece in pieces] == [0, *CUTS]


def test_a_file_that_is_not_a_video_is_refused(tmp_path: Path, scenes: SceneList) -> None:
    (tmp_path / "video.mp4").write_text("text")
    for settings in (
        with_options(SplitSettings, output=tmp_path / "out"),
        with_options(SplitSettings, output=tmp_path / "out", exact=True),
    ):
        with pytest.raises(VideoError, match=r"video\.mp4: not a video that can be read"):
            split(tmp_path / "video.mp4", scenes, settings)
    with pytest.raises(VideoError, match="no such file"):
        write_chapters(tmp_path / "gone.mp4", scenes, output=tmp_path / "out")


def test_progress_is_reported_over_the_whole_video(video: Path, scenes: SceneList, tmp_path: Path) -> None:
    told: list[float] = []
    split(video, scenes, with_options(SplitSettings, output=tmp_path), lambda stage, done, total: told.append(done))
    assert max(told) == pytest.approx(scenes.video.duration, abs=0.05)
