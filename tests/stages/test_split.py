"""Videos cut into scenes: which frames and how much sound each clip has, and that no partial files are left."""

from __future__ import annotations

import re
import shutil
import subprocess
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
import numpy as np
import pytest
from av.stream import Disposition

from pipelines.errors import BasslError, BasslWarning, VideoError
from pipelines.files import safe_name
from pipelines.options import with_options
from pipelines.scenes import SceneData, Segment, group_shots
from pipelines.stages.save_images import save_images
from pipelines.stages.settings import SplitSettings
from pipelines.stages.split import Clip, split, write_chapters
from pipelines.video.clips import ClipFile
from pipelines.video.inputs import fingerprint
from tests import videos
from tests.videos import CUTS, FRAMES, GROUPS, numbers, scenes_of

STARTS, ENDS = (0, *CUTS), (*CUTS, FRAMES)


def lengths(path: Path) -> list[float]:
    """Return the duration of each track in seconds; the video track first."""
    with av.open(str(path)) as container:
        tracks = (*container.streams.video, *container.streams.audio)
        return [float(track.duration * track.time_base) for track in tracks if track.duration is not None]


def samples(path: Path) -> np.ndarray:
    """Return the samples of the first sound track, of its first channel."""
    with av.open(str(path)) as container:
        return np.concatenate([frame.to_ndarray()[0] for frame in container.decode(audio=0)])


def cut(scenes: SceneData, folder: Path, mode: str) -> list[Path]:
    """Return what is written: the copies of scenes, exact clips, or one copy with chapters."""
    if mode == "chapters":
        return [write_chapters(scenes, output=folder)]
    return [clip.path for clip in split(scenes, output=folder, exact=mode == "exact")]


def check_copies(clips: Sequence[Clip], rate: float = 24, most_late: int = 2) -> None:
    """Check that copies show all frames of their scenes, in order, and only as many others before them as they say."""
    for clip, start, end in zip(clips, STARTS, ENDS, strict=True):
        frames = numbers(clip.path)
        assert frames == list(range(frames[0], frames[-1] + 1))
        assert start - 12 < frames[0] <= start < end <= frames[-1] + 1 <= end + most_late
        assert clip.early == pytest.approx((start - frames[0]) / rate, abs=0.002)
        assert clip.late == pytest.approx((frames[-1] + 1 - end) / rate, abs=0.05)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return five seconds at 23.976, with sound."""
    return videos.write_video(
        tmp_path_factory.mktemp("split") / "My video.mp4",
        videos.images(FRAMES, CUTS),
        rate=Fraction(24000, 1001),
        options=GROUPS,
        sound_seconds=5,
    )


@pytest.fixture(scope="module")
def scenes(video: Path) -> SceneData:
    return scenes_of(video)


def part_of(whole: SceneData) -> SceneData:
    """Return the second and the third of four scenes, as of a part of the video."""
    shots = tuple(replace(shot, index=i) for i, shot in enumerate(whole.shots[1:3]))
    video = replace(whole.video, frames=shots[-1].end_frame, duration=shots[-1].end)
    settings = {"start": shots[0].start, "end": shots[-1].end}
    return SceneData(video, settings, shots, group_shots(shots, [0, 1]))


# --- copies ---------------------------------------------------------------------------------------------------------


def test_copies_have_unchanged_packets_from_a_key_frame_on(video: Path, scenes: SceneData, tmp_path: Path) -> None:
    def packets(path: Path) -> list[bytes]:
        with av.open(str(path)) as container:
            return [bytes(packet) for packet in container.demux(video=0) if packet.size]

    seconds: list[float] = []
    clips = split(scenes, with_options(SplitSettings, output=tmp_path), lambda stage, done, total: seconds.append(done))
    assert max(seconds) == pytest.approx(scenes.video.duration, abs=0.05)
    whole = packets(video)
    assert [clip.path.name for clip in clips] == [f"My video-scene-00{i}.mp4" for i in (1, 2, 3, 4)]
    assert sorted(tmp_path.glob("[!.]*")) == [clip.path for clip in clips]
    check_copies(clips, 24000 / 1001)
    for clip, start in zip(clips, STARTS, strict=True):
        frames = numbers(clip.path)
        assert frames[0] == start // 12 * 12
        pictures, sound = lengths(clip.path)
        assert pictures == pytest.approx(len(frames) * 1001 / 24000, abs=0.001)
        assert sound == pytest.approx(clip.end - clip.start + clip.early, abs=0.03)
        part = packets(clip.path)
        first = whole.index(part[0])
        assert part == whole[first : first + len(part)]
    assert clips[1].early > 0.2


@pytest.mark.parametrize(
    ("ending", "codec", "sound"),
    [(".mkv", "libx264", 5.0), (".webm", "libvpx", 0.0), (".ts", "libx264", 5.0)],
)
def test_copies_keep_the_container_format(tmp_path: Path, ending: str, codec: str, sound: float) -> None:
    options = GROUPS if codec == "libx264" else {"g": "12", "deadline": "realtime", "cpu-used": "8", "b": "2M"}
    path = videos.write_video(
        tmp_path / f"video{ending}", videos.images(FRAMES, CUTS), codec=codec, options=options, sound_seconds=sound
    )
    clips = split(scenes_of(path), output=tmp_path / "out")
    assert {clip.path.suffix for clip in clips} == {ending}
    check_copies(clips)


def test_copies_of_avi_keep_sound_with_its_frames_where_frames_are_stored_in_another_order(tmp_path: Path) -> None:
    def decoding_times(path: Path) -> list[dict[bytes, float]]:
        with av.open(str(path)) as container:
            kinds: dict[str, dict[bytes, float]] = {"video": {}, "audio": {}}
            for packet in container.demux():
                if packet.size:
                    assert packet.dts is not None
                    kinds[packet.stream.type].setdefault(bytes(packet), float(packet.dts * packet.time_base))
            return list(kinds.values())

    shown, options = videos.images(FRAMES, CUTS), {"bf": "2", "g": "12"}
    path = videos.write_video(tmp_path / "video.avi", shown, codec="mpeg4", options=options, sound_seconds=5)
    whole = decoding_times(path)
    for clip in split(scenes_of(path), output=tmp_path / "out"):
        pictures, sound = (next(iter(times.items())) for times in decoding_times(clip.path))
        early = whole[0][pictures[0]] - pictures[1]
        assert whole[1][sound[0]] - sound[1] == pytest.approx(early, abs=0.02)


def write_refreshed(path: Path) -> Path:
    """Write H.264 that has no key frame after the first: each frame has a column that needs no other frame."""
    options = GROUPS | {"g": "24", "x264-params": "scenecut=0:intra-refresh=1"}
    options |= {"bf": "0"} if path.suffix == ".avi" else {}
    return videos.write_video(path, videos.images(FRAMES, CUTS), options=options)


def write_wrongly_marked(path: Path) -> Path:
    """Write H.264 in which many packets are marked as key frames, of which most are none."""
    plain = videos.write_video(path.with_name(f"plain{path.suffix}"), videos.images(FRAMES, CUTS), options=GROUPS)
    with av.open(str(plain)) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for number, packet in enumerate(packet for packet in source.demux(video=0) if packet.size):
            packet.stream, packet.is_keyframe = stream, number % 5 == 0 or packet.is_keyframe
            target.mux(packet)
    return path


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (write_refreshed, "video.mp4"),
        (write_refreshed, "video.mkv"),
        (write_refreshed, "video.ts"),
        (write_wrongly_marked, "video.mkv"),
    ],
)
def test_without_key_frames_all_frames_can_be_shown(tmp_path: Path, write: Callable[[Path], Path], name: str) -> None:
    path = write(tmp_path / name)
    whole = dict(zip(videos.numbers(path), videos.decoded(path), strict=True))
    assert len(whole) == FRAMES
    for clip, start, end in zip(split(scenes_of(path), output=tmp_path / "out"), STARTS, ENDS, strict=True):
        shown = videos.numbers(clip.path)
        assert shown == list(range(shown[0], shown[-1] + 1))
        assert shown[0] <= start < end <= shown[-1] + 1
        for number, image in zip(shown, videos.decoded(clip.path), strict=True):
            assert np.array_equal(image, whole[number])
        assert clip.early >= (start - shown[0]) / 24 - 0.002


def test_copies_of_h264_in_avi_have_the_frames_of_their_scene(tmp_path: Path) -> None:
    clips = split(scenes_of(write_refreshed(tmp_path / "video.avi")), output=tmp_path / "out")
    assert [videos.numbers(clip.path)[-1] + 1 for clip in clips] == [*ENDS]
    reordered = videos.write_video(tmp_path / "reordered.avi", videos.images(FRAMES, CUTS), options=GROUPS)
    for clip, start, end in zip(split(scenes_of(reordered), output=tmp_path), STARTS, ENDS, strict=True):
        assert set(range(start, end)) <= set(videos.numbers(clip.path))


def test_a_video_that_ffmpeg_decodes_but_cannot_encode_is_copied(tmp_path: Path) -> None:
    # FFmpeg has dav1d for AV1, which only decodes.
    options = {"preset": "12", "g": "12", "svtav1-params": "scd=0"}
    path = videos.write_video(tmp_path / "video.mp4", videos.images(48, (24,)), codec="libsvtav1", options=options)
    scenes = scenes_of(path, (24,))
    clips = split(scenes, output=tmp_path)
    assert [len(videos.decoded(clip.path)) for clip in clips] == [24, 24]
    with av.open(str(write_chapters(scenes, output=tmp_path))) as container:
        assert len(container.chapters()) == 2
        assert container.streams.video[0].frames == 48


def test_prores_with_alpha_and_hevc_of_phones_keep_their_codec_tags(tmp_path: Path) -> None:
    prores = {"codec": "prores_ks", "pixel_format": "yuva444p10le", "options": {"profile": "4444"}}
    deep = videos.write_video(tmp_path / "deep.mov", videos.images(48, (24,)), **prores)  # type: ignore[arg-type]
    hevc = videos.write_video(tmp_path / "hevc.mp4", videos.images(48, (24,)), codec="libx265")
    phone = videos.remuxed(tmp_path / "phone.mov", hevc, tag="hvc1")
    for video, tag in ((deep, "ap4h"), (phone, "hvc1")):
        scenes = scenes_of(video, (24,))
        written = [path for mode in ("copy", "chapters") for path in cut(scenes, tmp_path / "out", mode)]
        for path in (video, *written):
            with av.open(str(path)) as container:
                assert container.streams.video[0].codec_context.codec_tag == tag


@pytest.mark.parametrize(("exact", "sound"), [(False, 0.0), (True, 0.0), (True, 4.0)])
def test_a_subtitle_is_in_the_clip_in_which_it_begins(tmp_path: Path, exact: bool, sound: float) -> None:
    plain = videos.write_video(tmp_path / "plain.mp4", videos.images(96, (48,)), options=GROUPS, sound_seconds=sound)
    (tmp_path / "words.srt").write_text(
        "1\n00:00:00,500 --> 00:00:01,000\nHello\n\n2\n00:00:01,500 --> 00:00:03,500\nAcross the cut\n\n"
        "3\n00:00:03,000 --> 00:00:03,500\nBye\n"
    )
    video = videos.remuxed(tmp_path / "video.mkv", plain, tmp_path / "words.srt")

    def subtitles(path: Path) -> list[tuple[float, float, bytes]]:
        with av.open(str(path)) as container:
            packets = [packet for packet in container.demux(subtitles=0) if packet.size]
            tick = container.streams.subtitles[0].time_base
            return [(float(p.pts * tick), float(p.duration * tick), bytes(p)) for p in packets]

    first, second = (clip.path for clip in split(scenes_of(video, (48,)), output=tmp_path / "out", exact=exact))
    assert subtitles(first) == [(0.5, 0.5, b"Hello"), (1.5, 0.5, b"Across the cut")]
    assert subtitles(second) == [(1.0, 0.5, b"Bye")]


TAGS = {"title": "A day", "artist": "Me", "date": "2024-06-01"}
QUICKTIME = {
    "com.apple.quicktime.creationdate": "2024-06-01T12:00:00+0200",
    "com.apple.quicktime.location.ISO6709": "+48.1000+011.5000+500.0/",
}


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("phone.mov", TAGS | QUICKTIME),
        ("phone.mp4", TAGS | {"com.android.version": "14"}),
        ("movie.mov", TAGS | {"location": "+48.1000+011.5000/"}),
        ("movie.mkv", {"title": "A day", "ARTIST": "Me", "DATE_RECORDED": "2024-06-01", "LOCATION": "48.1"}),
    ],
)
def test_title_artist_date_and_place_are_kept(tmp_path: Path, name: str, tags: dict[str, str]) -> None:
    keys = {"movflags": "use_metadata_tags"} if any("." in key for key in tags) else {}
    path = videos.write_video(
        tmp_path / name, videos.images(48, (24,)), options=GROUPS, container_options=keys, metadata=tags
    )
    scenes = scenes_of(path, (24,))
    for mode in ("copy", "exact", "chapters"):
        with av.open(str(cut(scenes, tmp_path / mode, mode)[-1])) as container:
            assert tags.items() <= container.metadata.items()
            assert not [key for key in container.metadata if key.endswith("-eng") and "." in "".join(tags)]


def test_tags_that_are_wrong_in_a_clip_are_dropped(tmp_path: Path) -> None:
    metadata = {"TIMECODE": "01:00:00:00", "NUMBER_OF_FRAMES": "48", "BPS-eng": "5", "_STATISTICS_TAGS": "BPS"}
    path = videos.write_video(tmp_path / "video.mkv", videos.images(48, (24,)), options=GROUPS, metadata=metadata)
    for mode, kept in (("copy", {"ENCODER"}), ("exact", {"ENCODER"}), ("chapters", {"ENCODER", "TIMECODE"})):
        with av.open(str(cut(scenes_of(path, (24,)), tmp_path / mode, mode)[-1])) as container:
            assert container.metadata.keys() == kept


def write_with_everything(path: Path, folder: Path) -> Path:
    """Return a video with a second video track and sound; in Matroska also with subtitles, a cover and two fonts."""
    first = videos.write_video(folder / "first.mp4", videos.images(96, (48,)), options=GROUPS, sound_seconds=4)
    second = videos.write_video(folder / "second.mp4", videos.images(96, (48,), seed=1), options=GROUPS | {"g": "20"})
    if path.suffix != ".mkv":
        return videos.remuxed(path, first, second)
    for name in ("words.srt", "a.ttf", "b.ttf"):
        (folder / name).write_text("1\n00:00:00,500 --> 00:00:01,000\nHello\n" if name == "words.srt" else name)
    attached = [folder / "a.ttf", folder / "b.ttf", videos.write_still(folder / "cover.jpg")]
    return videos.remuxed(path, first, second, folder / "words.srt", attached=attached)


@pytest.mark.parametrize(
    ("name", "mode", "kinds", "left_out"),
    [
        ("video.mkv", "copy", "attachment attachment audio subtitle video video", "1 video track"),
        ("video.mkv", "chapters", "attachment attachment audio subtitle video video", "1 video track"),
        ("video.mkv", "exact", "attachment attachment audio subtitle video", "2 video tracks"),
        ("video.mp4", "copy", "audio video video", None),
        ("video.mov", "exact", "audio video", "1 video track"),
    ],
)
def test_all_streams_are_kept_or_named(tmp_path: Path, name: str, mode: str, kinds: str, left_out: str | None) -> None:
    scenes = scenes_of(write_with_everything(tmp_path / name, tmp_path), (50,))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        paths = cut(scenes, tmp_path / "out", mode)
    expected = [] if left_out is None else [f"{tmp_path / name}: left out: {left_out}"]
    assert [str(warning.message) for warning in caught] == expected
    with av.open(str(paths[0])) as container:
        assert sorted(stream.type for stream in container.streams if stream.type != "data") == kinds.split()
        if name == "video.mkv":
            assert [attachment.data for attachment in container.streams.attachments] == [b"a.ttf", b"b.ttf"]
    if mode == "copy":  # the second track begins with its first key frame in the clip
        with av.open(str(paths[1])) as container:
            frames = [videos.number_of(frame.to_ndarray(format="rgb24")) for frame in container.decode(video=1)]
        assert frames == list(range(60, 96))


@pytest.mark.parametrize(("matrix", "pixel_format"), [(8, "yuv422p12le"), (14, "yuv420p16le"), (10, "yuv444p")])
def test_exact_clips_of_videos_in_any_color_matrix_keep_it(tmp_path: Path, matrix: int, pixel_format: str) -> None:
    path = tmp_path / "video.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", 24)
        stream.width, stream.height, stream.pix_fmt = 64, 48, pixel_format
        stream.codec_context.colorspace = matrix
        for image in videos.images(24, (12,), width=64, height=48):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24").reformat(format=pixel_format)))
        container.mux(stream.encode(None))
    for clip in split(scenes_of(path, (12,)), output=tmp_path / "out", exact=True):
        with av.open(str(clip.path)) as container:
            frames = list(container.decode(video=0))
        assert (len(frames), frames[0].colorspace) == (12, matrix)


@pytest.mark.parametrize(("width", "height", "layout"), [(17, 13, "yuv444p"), (160, 96, "yuv420p10le")])
def test_odd_frame_sizes_and_high_bit_depths_are_encoded(tmp_path: Path, width: int, height: int, layout: str) -> None:
    options, shown = {"pixel_format": layout, "pixel_aspect": Fraction(4, 3)}, videos.images(20, (10,), width, height)
    path = videos.write_video(tmp_path / "video.mkv", shown, **options)  # type: ignore[arg-type]
    clips = split(scenes_of(path, (10,)), output=tmp_path / "out", exact=True)
    with av.open(str(clips[1].path)) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.pix_fmt) == (width, height, layout)
        assert stream.sample_aspect_ratio == Fraction(4, 3)
        assert sum(1 for _ in container.decode(video=0)) == 10


def test_the_timecode_track_of_a_camera_is_in_a_whole_copy_and_silently_not_in_clips(tmp_path: Path) -> None:
    frames = videos.images(48, (24,))
    path = videos.write_video(tmp_path / "camera.mov", frames, options=GROUPS, metadata={"timecode": "10:00:00:00"})
    timecodes = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mode in ("chapters", "copy", "exact"):
            with av.open(str(cut(scenes_of(path, (24,)), tmp_path / mode, mode)[-1])) as container:
                timecodes.append(container.streams.video[0].metadata.get("timecode"))
    assert timecodes == ["10:00:00:00", None, None]


@pytest.mark.parametrize("frames", [1, 2])
def test_a_video_so_short_that_decoders_return_all_frames_at_the_end_is_copied(tmp_path: Path, frames: int) -> None:
    options = {"preset": "fast", "crf": "12"}  # with frames in another order than they are shown
    path = videos.write_video(tmp_path / "video.mp4", videos.images(frames), options=options)
    (clip,) = split(scenes_of(path, ()), output=tmp_path / "out")
    assert numbers(clip.path) == list(range(frames))


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_frames_that_depend_on_missing_frames_are_left_out_and_leave_no_gap(tmp_path: Path, codec: str) -> None:
    # Open groups: the frames shown just before a keyframe come after it in the file, and need the group before.
    open_groups = "scenecut=0:open-gop=1:b-adapt=0:keyint=12:min-keyint=12:bframes=3"
    options = {"preset": "ultrafast", "crf": "12", f"{codec.removeprefix('lib')}-params": open_groups}
    path = videos.write_video(tmp_path / "video.mp4", videos.images(FRAMES, CUTS), codec=codec, options=options)
    clips = split(scenes_of(path), output=tmp_path / "out")
    check_copies(clips, most_late=4)
    for clip in clips:
        assert lengths(clip.path)[0] == len(numbers(clip.path)) / 24
        with av.open(str(clip.path)) as container:
            assert container.streams.video[0].average_rate == 24


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("name", "kept"), [("video.mkv", ["fra", "es-419"]), ("video.mp4", ["fra", "deu"])])
def test_sound_tracks_keep_languages_names_and_marks(tmp_path: Path, name: str, kept: list[str], exact: bool) -> None:
    path = write_with_sound(tmp_path / name, ["stereo", "stereo"], kept)
    for clip in split(scenes_of(path, (48,)), output=tmp_path / "out", exact=exact):
        with av.open(str(clip.path)) as container:
            tracks = container.streams.audio
            assert [track.language for track in tracks] == kept
            assert [track.metadata.get("title") or track.metadata["name"] for track in tracks] == ["0", "1"]
            assert [bool(track.disposition & Disposition.hearing_impaired) for track in tracks] == [False, True]
        assert len(samples(clip.path)) / 48000 == pytest.approx(clip.end - clip.start + clip.early, abs=0.05)


def test_languages_with_two_codes_are_kept_in_quicktime(tmp_path: Path) -> None:
    path = write_with_sound(tmp_path / "video.mp4", ["stereo", "stereo"], ["nld", "deu"]).rename(tmp_path / "video.mov")
    with av.open(str(split(scenes_of(path, (48,)), output=tmp_path / "out")[0].path)) as container:
        assert [track.language for track in container.streams.audio] == ["dut", "ger"]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("suffix", "codec"), [(".ts", "libx264"), (".mpg", "mpeg2video")])
def test_joined_recordings_are_cut_with_their_sound(tmp_path: Path, suffix: str, codec: str, exact: bool) -> None:
    groups = GROUPS if codec == "libx264" else {"g": "12", "bf": "2", "b": "4M"}
    options = {"codec": codec, "options": groups, "sound": videos.tone(2.5)._replace(codec="mp2")}
    parts = [tmp_path / f"{start}{suffix}" for start in (0, 60)]
    for part, start in zip(parts, (0, 60), strict=True):
        videos.write_video(part, islice(videos.images(FRAMES), start, start + 60), **options)  # type: ignore[arg-type]
    path = videos.joined(parts, tmp_path / f"video{suffix}")
    scenes = scenes_of(path, (30, 90))
    scenes = replace(scenes, video=replace(scenes.video, fingerprint=fingerprint(path)))  # its length is declared wrong
    clips = split(scenes, output=tmp_path / "out", exact=exact)
    for clip, scene in zip(clips, (range(30), range(30, 90), range(90, 120)), strict=True):
        shown = numbers(clip.path)
        assert shown == list(scene) if exact else set(scene) <= set(shown)
        assert len(samples(clip.path)) / 48000 == pytest.approx(clip.end - clip.start + clip.early, abs=0.12)


@pytest.mark.parametrize("exact", [False, True])
def test_at_960_frames_a_second_a_clip_has_the_frames_of_its_scene(tmp_path: Path, exact: bool) -> None:
    path = videos.write_video(tmp_path / "video.mkv", videos.images(240, (121,)), rate=960, options=GROUPS)
    clips = split(scenes_of(path, (121,)), output=tmp_path / "out", exact=exact)
    for clip, scene in zip(clips, (range(121), range(121, 240)), strict=True):
        shown = numbers(clip.path)
        assert shown == list(scene) if exact else set(scene) <= set(shown)


@pytest.mark.parametrize("exact", [False, True])
def test_chapters_are_kept_in_clips_and_replaced_by_new_ones(scenes: SceneData, tmp_path: Path, exact: bool) -> None:
    titles, whole = [], write_chapters(scenes, output=tmp_path)
    for clip in split(scenes_of(whole, (60,)), output=tmp_path / "out", exact=exact):
        with av.open(str(clip.path)) as container:
            titles.append([chapter["metadata"]["title"] for chapter in container.chapters()])
            assert container.chapters()[0]["start"] == 0
    assert titles == [["Scene 1", "Scene 2"], ["Scene 2", "Scene 3", "Scene 4"]]
    with av.open(str(write_chapters(scenes_of(whole, (61,)), output=tmp_path / "again"))) as container:
        assert (len(container.chapters()), len(container.streams.audio)) == (2, 1)


def test_exact_clips_have_the_mastering_data_and_light_levels_of_hdr10(tmp_path: Path) -> None:
    display = "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50):max-cll=1000,400"
    options = {"preset": "ultrafast", "x265-params": f"log-level=0:hdr10=1:repeat-headers=1:{display}"}
    shown = videos.images(24, (12,))
    path = videos.write_video(tmp_path / "v.mkv", shown, codec="libx265", pixel_format="yuv420p10le", options=options)
    kinds = ("MASTERING_DISPLAY_METADATA", "CONTENT_LIGHT_LEVEL")
    for clip in split(scenes_of(path, (12,)), output=tmp_path / "out", exact=True):
        data = []
        for file in (path, clip.path):
            with av.open(str(file)) as container:
                frame = next(container.decode(video=0))
            data.append([np.frombuffer(frame.side_data.get(kind), np.int32) for kind in kinds])
        (display, light), (expected_display, expected_light) = data
        assert (light == expected_light).all()
        expected = expected_display[:20:2] / expected_display[1:20:2]
        assert display[:20:2] / display[1:20:2] == pytest.approx(expected, rel=1e-3)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the ffmpeg program is not installed")
@pytest.mark.parametrize("exact", [False, True])
def test_clips_have_the_program_of_the_video_that_is_read(tmp_path: Path, exact: bool) -> None:
    large = write_with_sound(tmp_path / "large.mkv", ["stereo"], ["deu"])
    small = videos.write_video(tmp_path / "small.mkv", videos.images(96, (), 80, 48), sound_seconds=4)
    path = tmp_path / "video.ts"
    programs = "-map 0 -map 1 -c:v copy -program st=0:st=1 -program st=2:st=3"
    subprocess.run(["ffmpeg", "-v", "error", "-i", small, "-i", large, *programs.split(), path], check=True)
    with pytest.warns(BasslWarning, match="left out: 1 video track, 1 audio track$"):
        clips = split(scenes_of(path, (48,)), output=tmp_path / "out", exact=exact)
    with av.open(str(clips[1].path)) as container:
        assert [stream.type for stream in container.streams] == ["video", "audio"]
        assert (container.streams.video[0].width, container.streams.audio[0].language) == (160, "deu")


def test_overlapping_sound_and_channel_changes_are_handled(tmp_path: Path) -> None:
    # A broadcast that goes from stereo to mono: two recordings, the second begins before the first has ended.
    parts = [
        write_with_sound(tmp_path / f"{number}.ts", [layout], frames=range(48 * number, 48 * number + 48), early=early)
        for number, (layout, early) in enumerate((("stereo", 0), ("mono", 2400)))
    ]
    path = videos.joined(parts, tmp_path / "video.ts")
    clips = split(scenes_of(path, (24,)), output=tmp_path / "out", exact=True)
    copies = split(scenes_of(path, (24,)), output=tmp_path / "copies")
    for written in (clips, copies):
        assert [numbers(clip.path) for clip in written] == [list(range(24)), list(range(24, 96))]
    assert len(samples(clips[1].path)) / 48000 == pytest.approx(3, abs=0.1)


def write_with_sound(
    path: Path, layouts: Sequence[str], languages: Sequence[str] = (), frames: range = range(96), early: int = 0
) -> Path:
    """Return frames at 24 a second with silent tracks, which begin some samples before the frames."""
    codec, form = ("mp2", "s16") if path.suffix == ".ts" else ("aac", "fltp")
    with av.open(str(path), "w", container_options={"mpegts_copyts": "1"} if path.suffix == ".ts" else {}) as container:
        stream = container.add_stream("libx264", rate=24, options=GROUPS | {"bf": "0"})
        stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
        tracks = [container.add_stream(codec, rate=48000, layout=layout) for layout in layouts]
        for number, (track, language) in enumerate(zip(tracks, languages, strict=False)):
            track.metadata.update({"language": language, "title": str(number)})
            track.disposition = Disposition.hearing_impaired if number else Disposition.default
        for index, image in enumerate(videos.images(96, (48,))):
            if index not in frames:
                continue
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, 24)
            container.mux(stream.encode(frame))
            for track in tracks:
                silence = av.AudioFrame(format=form, layout=track.layout, samples=2000)
                for plane in silence.planes:
                    plane.update(bytes(plane.buffer_size))
                silence.sample_rate, silence.pts, silence.time_base = 48000, index * 2000 - early, Fraction(1, 48000)
                container.mux(track.encode(silence))
        for track in (stream, *tracks):
            container.mux(track.encode())
    return path


def test_exact_clips_have_the_frames_and_sound_of_their_scenes(video: Path, scenes: SceneData, tmp_path: Path) -> None:
    whole, clips = videos.decoded(video), split(scenes, output=tmp_path, exact=True)
    assert sorted(tmp_path.glob("[!.]*")) == [clip.path for clip in clips]
    for clip, start, end in zip(clips, STARTS, ENDS, strict=True):
        assert (clip.early, clip.late) == (0, 0)
        assert numbers(clip.path) == list(range(start, end))
        pictures, sound = lengths(clip.path)
        assert pictures == pytest.approx(clip.end - clip.start, abs=0.002)
        assert sound == pytest.approx(pictures, abs=0.006)  # the video's own ends 5 ms before its pictures
        for number, picture in enumerate(videos.decoded(clip.path)):
            error = (picture.astype(float) - whole[start + number]) ** 2
            assert 10 * np.log10(255**2 / error.mean()) > 30
    # The video's tone is a wave of 440 Hz: it goes on where the clip before left off.
    tone = samples(clips[1].path)
    times = (np.arange(len(tone)) + round(clips[1].start * 48000)) / 48000
    middle = slice(4800, 48000)
    assert np.corrcoef(tone[middle], np.sin(times * 440 * 2 * np.pi)[middle])[0, 1] > 0.99


def test_exact_pieces_have_sound_where_their_first_frame_is_the_last_of_a_group(tmp_path: Path) -> None:
    options = {**GROUPS, "g": "48"}
    video = videos.write_video(tmp_path / "video.mp4", videos.images(96, (47,)), options=options, sound_seconds=4)
    whole = scenes_of(video, (47,))
    shots = (replace(whole.shots[1], index=0),)
    part = replace(whole, shots=shots, scenes=group_shots(shots, [0]), settings={"start": shots[0].start})
    (clip,) = split(part, output=tmp_path / "out", exact=True)
    pictures, sound = lengths(clip.path)
    assert numbers(clip.path) == list(range(47, 96))
    assert sound == pytest.approx(pictures, abs=0.05)


def test_a_variable_frame_rate_is_kept(tmp_path: Path) -> None:
    times = [i / 24 if i < 30 else 5 + i / 6 for i in range(60)]
    path = videos.write_video(tmp_path / "video.mkv", videos.images(60, (30,)), times=times)
    clips = split(scenes_of(path, (30,)), output=tmp_path / "out", exact=True)
    for clip, part in zip(clips, (times[:30], times[30:]), strict=True):
        with av.open(str(clip.path)) as container:
            shown_times = [float(frame.time or 0) for frame in container.decode(video=0)]
        assert shown_times == pytest.approx([time - part[0] for time in part], abs=0.0015)
    assert [numbers(clip.path) for clip in clips] == [list(range(30)), list(range(30, 60))]


@pytest.mark.parametrize("mode", ["copy", "exact", "chapters"])
def test_a_slideshow_whose_last_frame_is_long_is_cut(tmp_path: Path, mode: str) -> None:
    path = videos.write_slideshow(tmp_path / "slides.mp4", list(videos.images(4)), [3, 4, 5, 25])
    scenes = scenes_of(path, (1, 2, 3))
    pieces = cut(replace(scenes, video=replace(scenes.video, fingerprint=fingerprint(path))), tmp_path / "cut", mode)
    assert [frame for piece in pieces for frame in numbers(piece)] == [0, 1, 2, 3]


@pytest.mark.parametrize(("turns", "mirrored"), [(1, False), (2, False), (0, True), (1, True)])
def test_rotated_and_mirrored_phone_video_becomes_upright(tmp_path: Path, turns: int, mirrored: bool) -> None:
    plain = videos.write_video(tmp_path / "plain.mp4", videos.images(48, (24,)), options=GROUPS)
    path = videos.rotated(plain, tmp_path / "video.mp4", turns, mirrored)
    stored = videos.decoded(plain)[24]
    upright = np.rot90(stored[:, ::-1] if mirrored else stored, -turns)
    exact = split(scenes_of(path, (24,)), output=tmp_path / "exact", exact=True)[1].path
    first_frame = videos.decoded(exact)[0]
    assert first_frame.shape == upright.shape
    assert np.abs(first_frame.astype(int) - upright).mean() < 4
    copied = split(scenes_of(path, (24,)), output=tmp_path / "copied")[1].path
    assert videos.timed(copied)[1].orientation == (turns, mirrored)


@pytest.mark.parametrize("ending", [".mp4", ".mkv", ".ts"])
def test_a_copy_with_chapters_has_all_streams_and_the_scenes_as_chapters(tmp_path: Path, ending: str) -> None:
    shown = videos.images(FRAMES, CUTS)
    path = videos.write_video(tmp_path / f"video{ending}", shown, 24000 / 1001, options=GROUPS, sound_seconds=5)
    copy = write_chapters(scenes_of(path), output=tmp_path / "out")
    assert copy.name == f"video-chapters{'.mkv' if ending == '.ts' else ending}"
    with av.open(str(copy)) as container:
        chapters = container.chapters()
        assert [chapter["metadata"]["title"] for chapter in chapters] == [f"Scene {i}" for i in (1, 2, 3, 4)]
        picture = container.streams.video[0]
        frame_times = [float(frame.time or 0) for frame in container.decode(picture)]
    for chapter, start in zip(chapters, STARTS, strict=True):
        begin = float(chapter["start"] * (chapter["time_base"] or 0))
        # A player that jumps there shows the scene's first frame.
        assert begin == pytest.approx(0 if start == 0 else frame_times[start], abs=0.0015)
    assert numbers(copy) == numbers(path)
    assert len(lengths(copy)) == (2 if ending == ".mp4" else 0)
    assert list((tmp_path / "out").glob("[!.]*")) == [copy]


# --- what cannot be done --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mode", "words"),
    [
        # It has no timestamps for frames that are stored in another order.
        ("video.avi", "chapters", "has frames without timestamps, so it cannot have chapters"),
        ("video.h264", "copy", "give `exact=True`"),
    ],
)
def test_a_video_without_timestamps_can_only_be_cut_exactly(tmp_path: Path, name: str, mode: str, words: str) -> None:
    path = videos.write_video(tmp_path / name, videos.images(FRAMES, CUTS), options=GROUPS)
    with pytest.raises(VideoError, match=f"{re.escape(str(path))}: .*{words}"):
        cut(scenes_of(path), tmp_path / "out", mode)
    assert not list((tmp_path / "out").glob("*"))
    assert [numbers(clip)[0] for clip in cut(scenes_of(path), tmp_path / "out", "exact")] == [0, *CUTS]


@pytest.mark.parametrize(("exact", "offset"), [(False, 0), (True, 0), (False, 30)], ids=["copy", "exact", "late clock"])
def test_handles_of_a_part_of_a_video_end_with_the_video(tmp_path: Path, exact: bool, offset: int) -> None:
    path = videos.write_video(
        tmp_path / "video.mkv", videos.images(FRAMES, CUTS), container_options={"output_ts_offset": str(offset)}
    )
    whole = scenes_of(path)
    first, last = split(part_of(whole), output=tmp_path / "out", exact=exact, expand=2.0)
    assert (first.start, first.end) == (0.0, whole.scenes[1].end + 2)
    assert last.end == pytest.approx(whole.video.duration, abs=0.01)
    assert numbers(last.path)[-1] == FRAMES - 1


def test_scenes_of_credits_are_left_out_and_the_others_keep_their_numbers(scenes: SceneData, tmp_path: Path) -> None:
    first, _, third, last = scenes.shots
    segments = (
        Segment("opening_credits", 0, first.end_frame, 0.0, first.end),
        Segment("black", third.start_frame, third.end_frame, third.start, third.end),
        Segment("end_credits", last.start_frame - 4, last.end_frame, last.start - 0.2, last.end),
    )
    clips = split(replace(scenes, segments=segments), output=tmp_path, skip_credits=True)
    assert [clip.path.name for clip in clips] == ["My video-scene-002.mp4", "My video-scene-003.mp4"]
    assert [(clip.start, clip.end) for clip in clips] == [(scene.start, scene.end) for scene in scenes.scenes[1:3]]


@pytest.mark.parametrize("exact", [False, True])
def test_clips_that_are_there_stay_and_missing_ones_are_made(scenes: SceneData, tmp_path: Path, exact: bool) -> None:
    first = split(scenes, output=tmp_path, exact=exact)
    times = [clip.path.stat().st_mtime_ns for clip in first]
    first[2].path.unlink()
    again = split(scenes, output=tmp_path, exact=exact)
    assert [clip.path for clip in again] == [clip.path for clip in first]
    changed = [clip for clip, time in zip(again, times, strict=True) if clip.path.stat().st_mtime_ns != time]
    assert changed == [again[2]] == [first[2]]
    assert [clip.early for clip in again] == [0.0 if exact else None] * 2 + [first[2].early, 0.0 if exact else None]
    for other in ({"exact": not exact}, {"exact": exact, "expand": 0.5}):
        with pytest.raises(BasslError, match=r"scene-001\.mp4: already exists"):
            split(scenes, output=tmp_path, **other)  # type: ignore[arg-type]
    assert numbers(split(scenes, output=tmp_path, exact=not exact, overwrite=True)[1].path)[0] == (24 if exact else 30)
    path = write_chapters(scenes, output=tmp_path)
    assert path.stat().st_mtime_ns == write_chapters(scenes, output=tmp_path).stat().st_mtime_ns


UNSAFE = "../a\x1b[31m\ud800/\u202eb c"


def test_ids_and_scene_names_become_safe_names_of_files(
    scenes: SceneData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scene = replace(scenes.scenes[0], name=UNSAFE)
    unsafe = replace(scenes, video=replace(scenes.video, id=UNSAFE), scenes=(scene,))
    split(unsafe, filename="$VIDEO_NAME-$SCENE_NAME")
    save_images(unsafe, filename="$VIDEO_NAME-$SCENE_NAME-$IMAGE_NUMBER")
    write_chapters(unsafe)
    for path in (*tmp_path.iterdir(), *tmp_path.glob("*/[!.]*")):
        assert path.name.startswith("a_")
        assert re.search("b[ _]c", path.name)
        assert safe_name(path.name) == path.name
    assert len([*tmp_path.glob("*/[!.]*")]) == 5


def test_a_full_disk_is_one_line(
    video: Path, scenes: SceneData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, *arguments: object) -> None:
        raise av.error.OSError(28, "No space left on device", "x")

    monkeypatch.setattr(ClipFile, "add_frame", full)
    with pytest.raises(BasslError, match=r"the clips of .*My video\.mp4 cannot be written \(no space left on device\)"):
        split(scenes, output=tmp_path)
    assert list(tmp_path.iterdir()) == []
