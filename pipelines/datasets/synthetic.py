"""Generator of synthetic animated videos with known scenes.

`plan_video` plans a video (sets, cast, scenes, shots, cameras) from a seed, `render_keyframes` draws a few frames of
every shot, and `write_video` draws and encodes the whole video and writes its true scenes beside it. Within a scene the
shots look different, while sets recur later with other people and another light, and people recur in other sets.

    python -m pipelines.datasets.synthetic video.mp4 --seed 3

Drawing is in `synthetic_art`; positions are in meters, x to the right and y up from the ground.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from numpy.random import Generator

from pipelines import __version__
from pipelines.datasets.synthetic_art import (
    LIGHTS,
    PROPS,
    Actor,
    Canvas,
    Image,
    LitSet,
    draw_figure,
    insert_backdrop,
    set_backdrop,
)
from pipelines.errors import BasslError, count
from pipelines.files import atomic_file, check_output
from pipelines.options import check_at_least, check_range
from pipelines.scenes import SceneData, Shot, VideoFacts, group_shots, timecode

Camera = tuple[float, float, float]  # center x, y and height of its view, in meters
CamerasOfScene = dict[tuple[str, int], Camera]  # by kind and ``which`` of a shot


@dataclass(frozen=True)
class SyntheticVideoSettings:
    """Settings of a video; the same settings always give the same frames. Raises ValueError for one out of range."""

    seed: int = 0  # seed of all random choices; 0 or more
    scenes: int = 12  # number of scenes, 1 or more
    shots_per_scene: tuple[int, int] = (4, 12)  # minimum and maximum number of shots in a scene
    # Shortest and longest shot, in seconds; short shots are more frequent. A shot has 4 frames or more.
    shot_seconds: tuple[float, float] = (1.5, 6.0)
    frame_rate: float = 24.0  # frames per second
    width: int = 640  # width of the frame in pixels, even, 16 to 4096
    height: int = 360  # height of the frame in pixels, even, 16 to 4096
    # Number of scene changes that are dissolves of a second (all, if there are fewer). All other shot changes are cuts.
    dissolves: int = 2

    def __post_init__(self) -> None:
        check_at_least(self, 0, "seed", "dissolves")
        check_at_least(self, 1, "scenes")
        check_range(self, 16, 4096, "width", "height")
        if self.width % 2 or self.height % 2:
            raise ValueError(f"width and height must be even, not {self.width} and {self.height}")


@dataclass(frozen=True)
class SyntheticShot:
    """The frames `[start_frame, end_frame)` of the video, and what they show: wide, two (people), close, medium, detail
    (a part of the set) or insert (the prop number `which`); `cameras` are the views at its start and end."""

    start_frame: int
    end_frame: int
    scene: int
    kind: str
    which: int
    cameras: tuple[Camera, Camera]
    actors: tuple[Actor, ...]


@dataclass(frozen=True)
class SyntheticVideo:
    """The plan of a video."""

    settings: SyntheticVideoSettings
    shots: tuple[SyntheticShot, ...]
    sets: tuple[int, ...]  # of every scene; equal numbers are the same place
    lights: tuple[str, ...]  # of every scene
    dissolves: tuple[tuple[int, int], ...]  # half-open frame ranges in which two shots are mixed

    @property
    def frame_rate(self) -> Fraction:
        """Return the exact number of frames per second."""
        return Fraction(self.settings.frame_rate).limit_denominator(1000)

    @property
    def frames(self) -> int:
        """Return the number of frames."""
        return self.shots[-1].end_frame

    @property
    def shot_ranges(self) -> tuple[tuple[int, int], ...]:
        """Return the half-open frame range of every shot."""
        return tuple((shot.start_frame, shot.end_frame) for shot in self.shots)

    @property
    def scene_of_shot(self) -> tuple[int, ...]:
        """Return the scene index of every shot."""
        return tuple(shot.scene for shot in self.shots)


# --- planning -------------------------------------------------------------------------------------------------------


def plan_video(settings: SyntheticVideoSettings) -> SyntheticVideo:
    """Plan a video, without drawing."""
    rng = np.random.default_rng([settings.seed, 0])
    sets = _order_of_sets(rng, settings.scenes)
    people = 2 + round(0.6 * settings.scenes)
    casts: list[tuple[int, ...]] = []
    shots: list[SyntheticShot] = []
    for scene, place in enumerate(sets):
        likely = np.where(np.arange(people) < 2, 3.0, 1.0)  # the first two are the leads
        for earlier, cast in enumerate(casts):
            if sets[earlier] == place:
                likely[list(cast)] = 0.01  # a set recurs with other people
        size = min(people, int(rng.choice((1, 2, 2, 2, 3))))
        casts.append(tuple(map(int, rng.choice(people, size, replace=False, p=likely / likely.sum()))))
        cameras, over_shoulder = _set_up_cameras(rng), bool(rng.random() < 0.4)
        count = int(rng.integers(settings.shots_per_scene[0], settings.shots_per_scene[1], endpoint=True))
        for kind, which in _storyboard(rng, count, size):
            shortest, longest = settings.shot_seconds
            start = shots[-1].end_frame if shots else 0
            end = start + round(shortest * (longest / shortest) ** (rng.random() ** 1.3) * settings.frame_rate)
            staged = _stage(rng, kind, which, casts[-1], cameras, over_shoulder)
            shots.append(SyntheticShot(start, end, scene, kind, which, *staged))
    lights = tuple(str(rng.choice(tuple(LIGHTS))) for _ in sets)
    return SyntheticVideo(settings, tuple(shots), sets, lights, _place_dissolves(rng, settings, shots))


def _order_of_sets(rng: Generator, scenes: int) -> tuple[int, ...]:
    """Return the set of every scene: about a third reuse an earlier set, never the set of the scene before."""
    sets = min(scenes, max(2, round(0.65 * scenes)))
    order: list[int] = []
    used = 0
    for scene in range(scenes):
        earlier = [place for place in range(used) if place != order[-1]]
        must_add = sets - used == scenes - scene
        fresh = used < sets and (must_add or not earlier or rng.random() < 0.65)
        order.append(used if fresh else int(rng.choice(earlier)))
        used += fresh
    return tuple(order)


def _storyboard(rng: Generator, count: int, people: int) -> list[tuple[str, int]]:
    """Return `count` shots (kind and which speaker, prop or detail); consecutive ones differ."""
    board = [("wide", 0)] if rng.random() < 0.75 else [("insert", int(rng.integers(len(PROPS))))]
    while len(board) < count:
        kind = str(rng.choice(("talk", "two", "insert", "wide", "detail"), p=(0.5, 0.14, 0.16, 0.1, 0.1)))
        beats = [(kind, int(rng.integers(len(PROPS))) if kind in ("insert", "detail") else 0)]
        if kind == "talk":  # shot and reverse shot; a single person is seen from two sides
            one, other = rng.permutation(people)[:2] if people > 1 else (0, 0)
            sides = (("close", int(one)), ("close", int(other)) if people > 1 else ("medium", 0))
            beats = [sides[turn % 2] for turn in range(rng.integers(3, 7))]
        elif kind == "two" and people == 1:
            beats = [("medium", 0)]
        if beats[0] != board[-1] and (kind == "talk" or kind != board[-1][0]):
            board += beats
    return board[:count]


def _set_up_cameras(rng: Generator) -> CamerasOfScene:
    """Return the scene's camera positions; each speaker has another side of the set behind them."""
    one, other = rng.permutation((2.4, 13.6))
    jitter, tight = rng.uniform(-0.5, 0.5, 6), rng.uniform(0.75, 1.0)
    places = zip((one, other, 8.0), jitter, strict=False)
    cameras = {("close", who): (x + shift, 1.42, tight * (1 + 0.15 * who)) for who, (x, shift) in enumerate(places)}
    cameras["wide", 0] = (8 + 3 * jitter[3], 1.4, rng.uniform(3.6, 4.4))
    cameras["two", 0] = (rng.choice((5.0, 11.0)) + jitter[4], 1.05, rng.uniform(1.9, 2.3))
    cameras["medium", 0] = (other + jitter[5], 1.2, 1.5)
    cameras |= {("detail", which): (2.0 + 3 * which, 1.9, 1.5) for which in range(len(PROPS))}
    return cameras | {("insert", which): (0.8, 0.45, 0.62) for which in range(len(PROPS))}


def _stage(
    rng: Generator, kind: str, which: int, cast: Sequence[int], cameras: CamerasOfScene, over_shoulder: bool
) -> tuple[tuple[Camera, Camera], tuple[Actor, ...]]:
    """Return the cameras and actors of one shot."""
    x, y, height = cameras[kind, which]
    actors: list[Actor] = []
    if kind == "wide":
        speed = float(rng.choice((0.0, 0.0, 0.35)))
        for place, character in enumerate(cast):
            side = 1 if place == 1 else -1
            where = x + side * (0.75 + 0.6 * (place // 2)) - (1.2 * speed if place == 0 else 0)
            actors.append(Actor(character, where, -side, place == 1, speed if place == 0 else 0.0))
    elif kind == "two":
        actors = [Actor(cast[0], x - 0.5, 1, bool(rng.random() < 0.5)), Actor(cast[1], x + 0.5, -1, True)]
    elif kind in ("close", "medium"):
        facing = 1 if x < 8 else -1
        actors = [Actor(cast[which], x - 0.12 * facing * height, facing, bool(rng.random() < 0.75))]
        if over_shoulder and kind == "close" and len(cast) > 1:
            height *= 1.3
            actors.append(Actor(cast[1 if which == 0 else 0], x + 0.62 * facing * height, -facing, near=True))
    moves = ((-0.1, 1.0), (0.1, 1.0), (0.0, 0.9), (0.0, 1.1))
    pan, zoom = moves[rng.integers(4)] if rng.random() < 0.4 else (0.0, 1.0)
    return ((x, y, height), (x + pan * height, y, height * zoom)), tuple(actors)


def _place_dissolves(
    rng: Generator, s: SyntheticVideoSettings, shots: list[SyntheticShot]
) -> tuple[tuple[int, int], ...]:
    """Return half-open frame ranges around some of the scene changes."""
    changes = [pair for pair in pairwise(shots) if pair[0].scene != pair[1].scene]
    ranges = []
    for i in sorted(rng.permutation(len(changes))[: s.dissolves]):
        before, after = changes[i]
        shorter = min(shot.end_frame - shot.start_frame for shot in (before, after))
        half = max(1, min(round(s.frame_rate / 2), shorter // 3))  # at most two thirds of the shorter shot
        ranges.append((after.start_frame - half, after.start_frame + half))
    return tuple(ranges)


# --- frames ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _backdrop(place: LitSet, shot: SyntheticShot) -> Canvas:
    """Return the background of a shot's actors, more out of focus the nearer the camera is."""
    if shot.kind == "insert":
        return insert_backdrop(place, shot.which)
    view, height = set_backdrop(place), shot.cameras[0][2]
    blur = 0.0 if height > 3 else view.scale * (0.05 if height < 1.4 else 0.02)
    return replace(view, image=cv2.GaussianBlur(view.image, (0, 0), blur)) if blur > 0.3 else view


@lru_cache(maxsize=2)
def _background(place: LitSet, shot: SyntheticShot, camera: Camera, width: int) -> Image:
    """Return the part of the backdrop that a camera sees; cached because most cameras do not move."""
    view, (x, y, height) = _backdrop(place, shot), camera
    zoom = height / place.height * view.scale  # backdrop pixels per frame pixel
    left = (x - view.left) * view.scale - zoom * width / 2
    top = (view.top - y) * view.scale - zoom * place.height / 2
    window, flags = np.array(((zoom, 0, left), (0, zoom, top))), cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    size = width, place.height
    return np.asarray(cv2.warpAffine(view.image, window, size, flags=flags, borderMode=cv2.BORDER_REFLECT))


def _draw_shot(video: SyntheticVideo, index: int, frame: int) -> Image:
    """Draw a shot at a frame of the video (which may be outside the shot, in a dissolve)."""
    shot, s = video.shots[index], video.settings
    along = (frame - shot.start_frame) / (shot.end_frame - shot.start_frame)
    x, y, height = (a + (b - a) * along for a, b in zip(*shot.cameras, strict=True))
    place, scale = LitSet(s.seed, video.sets[shot.scene], video.lights[shot.scene], s.height), s.height / height
    image = _background(place, shot, (x, y, height), s.width).copy()
    camera = Canvas(image, scale, x - s.width / 2 / scale, y + height / 2, *LIGHTS[place.light])
    for actor in shot.actors:
        view = camera
        if actor.near:  # 1.5 times as large, around the same position, and lower
            left, top = actor.x - (actor.x - camera.left) / 1.5, 1.5 + (camera.top - 1.62) / 1.5
            view = replace(camera, scale=1.5 * scale, left=left, top=top)
        draw_figure(view, actor, s.seed, (frame - shot.start_frame) / s.frame_rate)
    return image


@lru_cache(maxsize=2)
def _grain(settings: SyntheticVideoSettings) -> Image:
    """Return eight tiles of video grain around 128."""
    rng = np.random.default_rng([settings.seed, 5])
    return rng.normal(128.5, 1.2, (8, settings.height, settings.width)).clip(0, 255).astype(np.uint8)


def _draw_frame(video: SyntheticVideo, index: int, frame: int) -> Image:
    """Draw a frame of the video in shot `index`, as I420 (3/2 height, width), with dissolve, flicker and grain."""
    image = _draw_shot(video, index, frame)
    for start, end in video.dissolves:
        if start <= frame < end:
            other = _draw_shot(video, index + (1 if frame < (start + end) // 2 else -1), frame)
            share = abs(frame + 0.5 - (start + end) / 2) / (end - start) + 0.5
            image = cv2.addWeighted(image, share, other, 1 - share, 0)
    yuv: Image = cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420)
    luma, flicker = yuv[: video.settings.height], 1 + 0.008 * math.sin(1.7 * frame) + 0.006 * math.sin(0.61 * frame)
    cv2.addWeighted(luma, flicker, _grain(video.settings)[frame * 5 % 8], 1.0, -128, luma)
    return yuv


def render_keyframes(video: SyntheticVideo, per_shot: int = 3) -> Image:
    """Render keyframes of every shot, RGB, (shots, per_shot, height, width, 3), without encoding a video: keyframe k is
    at (k + 1) / (per_shot + 1) of the shot, as in keyframe stores."""
    keyframes: Image = np.empty((len(video.shots), per_shot, video.settings.height, video.settings.width, 3), np.uint8)
    for index, (start, end) in enumerate(video.shot_ranges):
        for k in range(per_shot):
            yuv = _draw_frame(video, index, start + (end - start) * (k + 1) // (per_shot + 1))
            keyframes[index, k] = cv2.cvtColor(yuv, cv2.COLOR_YUV2RGB_I420)
    return keyframes


# --- files ----------------------------------------------------------------------------------------------------------


def write_video(path: str | Path, settings: SyntheticVideoSettings) -> SyntheticVideo:
    """Draw and encode a video, and write its true scenes beside it (video.mp4 and video.scenes.json); both appear when
    both are complete. Raises BasslError: the path cannot be written, or does not end in .mp4."""
    video, path = plan_video(settings), Path(path)
    if path.suffix != ".mp4":
        raise BasslError(f"{path}: a video's name ends in .mp4")
    check_output(path)
    with atomic_file(path) as partial:
        _encode(partial, video)
        _truth(video, path).save(truth_path(path))
    return video


def truth_path(video: Path) -> Path:
    """Return the path of the true scenes of a video."""
    return video.with_suffix(".scenes.json")


def _encode(path: Path, video: SyntheticVideo) -> None:
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", video.frame_rate, options={"preset": "ultrafast", "crf": "25"})
        stream.width, stream.height, stream.pix_fmt = video.settings.width, video.settings.height, "yuv420p"
        stream.codec_context.thread_count = 1  # the number of threads changes x264's output
        for index, shot in enumerate(video.shots):
            for frame in range(shot.start_frame, shot.end_frame):
                encoded = av.VideoFrame.from_ndarray(_draw_frame(video, index, frame), format="yuv420p")
                encoded.pts, encoded.time_base = frame, 1 / video.frame_rate
                container.mux(stream.encode(encoded))
        container.mux(stream.encode())


def _truth(video: SyntheticVideo, path: Path) -> SceneData:
    """Return the true scenes of the video, with scores of 1 and 0."""
    s, rate = video.settings, video.frame_rate
    shots = []
    for i, (shot, following) in enumerate(zip(video.shots, (*video.scene_of_shot[1:], None), strict=True)):
        start, end = shot.start_frame, shot.end_frame
        times, is_end = (float(start / rate), float(end / rate)), float(shot.scene != following)
        shots.append(Shot(i, start, end, *times, is_end))
    return SceneData(
        VideoFacts(path.name, s.width, s.height, shots[-1].end, video.frames, float(rate)),
        {"made_by": f"pipelines.datasets.synthetic {__version__}", "dissolve_frames": video.dissolves} | asdict(s),
        tuple(shots),
        group_shots(shots, [shot.index for shot in shots if shot.score]),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m pipelines.datasets.synthetic OUT.mp4 [--seed N ...]`, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.datasets.synthetic", description="Make a video.")
    parser.add_argument("out", type=Path, help="video to write; its scenes go beside it, to NAME.scenes.json")
    for field in fields(SyntheticVideoSettings):
        option, default, text = "--" + field.name.replace("_", "-"), field.default, "default: %(default)s"
        if isinstance(default, tuple):
            kind = type(default[0])
            parser.add_argument(option, nargs=2, type=kind, default=default, metavar=("MIN", "MAX"), help=text)
        else:
            parser.add_argument(option, type=type(default), default=default, metavar="N", help=text)
    options = vars(parser.parse_args(arguments))
    out: Path = options.pop("out")
    try:
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
        video = write_video(out, SyntheticVideoSettings(**values))
    except (BasslError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    length = timecode(float(video.frames / video.frame_rate))
    counts = f"{count(len(video.shots), 'shot')} in {count(len(video.sets), 'scene')}"
    print(f"{out}: {length}, {counts}, listed in {truth_path(out)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
