"""One pass over a film: its shots, each with its key-frames, in flat memory and with every frame decoded once."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from pipelines.scenes import VideoFacts
from pipelines.video.decoding import Film
from pipelines.video.detectors import KnownCuts, ShotDetector, make_detector, read_cuts
from pipelines.video.pictures import FrameReader, Picture, YUVPicture, rgb, shown_size, small_rgb, upright
from pipelines.video.shots import FilmedShot, ReaderSettings

# The pictures that are held for one shot may take this much memory; a longer shot is held at every second frame, every
# fourth, and so on, which moves a key-frame by less than one part in a hundred of the shot.
_HELD_BYTES = 48 * 2**20

# Detectors look at a picture whose longer side has between this and twice as many pixels.
_DETECTOR_SIDE = 96


class FilmReader:
    """Iterate once to get the shots; then :attr:`facts` and :attr:`warnings` are known.

    Example::

        reader = FilmReader(Path("movie.mp4"), ReaderSettings())
        for shot in reader:
            print(shot.start, shot.end)
        print(reader.facts.duration)

    Attributes:
        frames_read: frames decoded so far.
    """

    def __init__(
        self,
        path: Path,
        settings: ReaderSettings,
        progress: Callable[[float, float | None], None] | None = None,
    ) -> None:
        """Args:
            path: the video.
            settings: detector and key-frames.
            progress: called now and then with (seconds read, seconds in all or None).

        Raises:
            VideoError, BasslError: when the film, the detector or the shot list cannot be used; here already, before
                any frame is read.
        """
        self.settings = settings
        known = None if settings.shots is None else KnownCuts(read_cuts(settings.shots), settings.shots)
        self._film = Film(path, settings.threads)
        try:
            self._detector: ShotDetector = known or make_detector(settings.detector, self._film.frame_rate)
        except BaseException:
            self._film.__exit__(None, None, None)
            raise
        self._progress = progress or (lambda done, total: None)
        self._times = array("d")
        self._shots = 0
        self.frames_read = 0

    @property
    def facts(self) -> VideoFacts:
        return self._film.facts

    @property
    def warnings(self) -> list[str]:
        return self._film.warnings

    def __iter__(self) -> Iterator[FilmedShot]:
        frame_reader = FrameReader(self.settings.lines)
        held = HeldPictures(recent=self._detector.lag + 1, budget=_HELD_BYTES)
        start = 0
        with self._film as film:
            for index, time, frame in film.frames():
                picture = frame_reader.read(frame)
                self._times.append(time)
                self.frames_read = index + 1
                held.add(index, picture)
                for cut in self._detector.push(index, small_rgb(picture, _DETECTOR_SIDE)):
                    if start < cut <= index:
                        yield self._shot(start, cut, held)
                        held.drop_before(cut)
                        start = cut
                if index % 256 == 0:
                    self._progress(time, film.declared_duration)
            frames = len(self._times)
            self._times.append(film.facts.duration)
            for cut in self._detector.finish(frames):
                if start < cut < frames:
                    yield self._shot(start, cut, held)
                    held.drop_before(cut)
                    start = cut
            yield self._shot(start, frames, held)
            self._progress(film.facts.duration, film.facts.duration)

    def _shot(self, start: int, end: int, held: HeldPictures) -> FilmedShot:
        count = self.settings.keyframes
        found = [held.nearest(index, start, end) for index in keyframe_indices(start, end, count)]
        film = self._film
        pictures: dict[int, Picture] = {}
        for index, picture in found:
            if index not in pictures:
                colours = rgb(picture)
                height, width = colours.shape[:2]
                aspect = film.pixel_aspect
                if film.rotation % 2:
                    width, height, aspect = height, width, 1.0 / aspect
                size = shown_size(width, height, aspect, self.settings.lines)
                pictures[index] = upright(colours, size, film.rotation)
        self._shots += 1
        return FilmedShot(
            index=self._shots - 1,
            start_frame=start,
            end_frame=end,
            start=self._times[start],
            end=self._times[end],
            keyframes=tuple(pictures[index] for index, _ in found),
            keyframe_indices=tuple(index for index, _ in found),
        )


def keyframe_indices(start: int, end: int, count: int) -> list[int]:
    """The frames at 1/(count+1), 2/(count+1), ... of the half-open range: for 3, at 1/4, 1/2 and 3/4."""
    return [start + (end - start) * k // (count + 1) for k in range(1, count + 1)]


class HeldPictures:
    """The pictures of the current shot of which any may become a key-frame.

    The newest ``recent`` frames are all held, because a detector reports a cut some frames late. Older ones are held
    within ``budget`` bytes, at a stride that doubles when they outgrow it, so that a shot of an hour takes no more
    memory than one of a minute.
    """

    def __init__(self, recent: int, budget: int) -> None:
        self._recent: deque[tuple[int, YUVPicture]] = deque()
        self._older: list[tuple[int, YUVPicture]] = []
        self._most_recent = recent
        self._budget = budget
        self._stride = 1

    def add(self, index: int, picture: YUVPicture) -> None:
        self._recent.append((index, picture))
        if len(self._recent) <= self._most_recent:
            return
        leaving = self._recent.popleft()
        if not self._older or leaving[0] - self._older[-1][0] >= self._stride:
            self._older.append(leaving)
            if len(self._older) > 8 and len(self._older) * picture.nbytes > self._budget:
                self._older = self._older[::2]
                self._stride *= 2

    def drop_before(self, index: int) -> None:
        """Forget all before ``index``, where the next shot begins."""
        held = [entry for entry in (*self._older, *self._recent) if entry[0] >= index]
        self._older = held[: -self._most_recent]
        self._recent = deque(held[-self._most_recent :])
        self._stride = 1

    def nearest(self, index: int, start: int, end: int) -> tuple[int, YUVPicture]:
        """The held (frame, picture) nearest to ``index`` within ``[start, end)``; the earlier of two."""
        held = [*self._older, *self._recent]
        first = bisect_left(held, start, key=lambda entry: entry[0])
        last = bisect_left(held, end, key=lambda entry: entry[0])
        return min(held[first:last], key=lambda entry: abs(entry[0] - index))
