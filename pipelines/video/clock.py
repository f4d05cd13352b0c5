"""Times of frames from timestamps: plain numbers in and out, without FFmpeg."""

from __future__ import annotations

import math
from fractions import Fraction

CLOCK_NOISE = 0.5
"""Timestamps that step back by more than this, in seconds, start a new clock; less is an error of single timestamps."""

SAME_TIME = 1e-6
"""Times that differ by less, in seconds, are equal: times are rounded to microseconds."""

_LONGEST_FRAME = 10.0  # seconds: some recorders write a huge duration for the last frame


class FrameClock:
    """The times of a video's frames, in seconds from its first frame, strictly increasing.

    - A frame without a timestamp begins when the one before it ends.
    - A frame lasts for the duration in its packet, or for the nominal duration if that is missing or implausible; see
      :meth:`end_declared` for the last frame.
    - If timestamps repeat or step back a little, the frame follows the one before it after the nominal duration.
    - If they step back by more than :data:`CLOCK_NOISE`, as in joined recordings, they start a new clock, and time
      continues. But if they soon continue on the old clock, only some frames were out of order, as in damaged videos.

    Args:
        tick: unit of timestamps and durations, in seconds.
        nominal: seconds from frame to frame at the nominal rate.
        first: seconds on the file's clock of the video's first frame; None: the first timestamp.
    """

    def __init__(self, tick: Fraction, nominal: float, first: float | None = None) -> None:
        self.first = first
        self._tick, self._tick_seconds = tick, float(tick)
        self._nominal = nominal
        self._last, self._length = -nominal, nominal  # of the newest frame
        self._stored_length = 0.0  # of the newest frame, according to its packet
        self._offset = 0.0  # from the file's clock, less `first`, to the video's time
        # The offset before a new clock, and the time until which the new clock may turn out to be an error.
        self._old_offset, self._doubtful_until = 0.0, -math.inf

    def advance(self, timestamp: int | None, duration: int) -> float:
        """The time of the next frame, from its presentation timestamp and duration in ticks."""
        time = self.end if timestamp is None else self._time_at(timestamp)
        self._stored_length = length = duration * self._tick_seconds
        self._last, self._length = time, length if 0 < length <= _LONGEST_FRAME else self._nominal
        return time

    @property
    def end(self) -> float:
        """Time at which the newest frame ends; 0 before the first frame."""
        return round(self._last + self._length, 6)

    def end_declared(self, end: float | None) -> float:
        """:attr:`end`, but a long frame counts as it is if it ends where the container declares the end."""
        long_end = round(self._last + self._stored_length, 6)
        agrees = end is not None and self._stored_length > _LONGEST_FRAME and abs(long_end - end) < CLOCK_NOISE
        return long_end if agrees else self.end

    def _time_at(self, timestamp: int) -> float:
        stamp = timestamp * self._tick.numerator / self._tick.denominator
        if self.first is None:
            self.first = stamp
        time = round(stamp - self.first + self._offset, 6)
        if self._last < self._doubtful_until:
            on_old_clock = round(stamp - self.first + self._old_offset, 6)
            if on_old_clock > self._last - CLOCK_NOISE:
                self._offset, time = self._old_offset, on_old_clock
        if time > self._last:
            return time
        following = self._last + self._nominal
        if self._last - time > CLOCK_NOISE:
            if self._last >= self._doubtful_until:  # otherwise another frame out of order: the old clock remains
                self._old_offset = self._offset
            self._doubtful_until = self._last + CLOCK_NOISE
            self._offset += following - time
        return following


class ForwardJumps:
    """Removes forward jumps of the clock from the timestamps of several streams, as FFmpeg's command line does.

    Args:
        longest: seconds by which a timestamp may exceed the end of the packet before it; more is a jump.
        lengths: the length of each jump in seconds is appended here.
    """

    def __init__(self, longest: float, lengths: list[float]) -> None:
        self._longest = longest
        self._lengths = lengths
        self._shifts = [0.0]  # seconds to subtract: before the first jump, and from each jump on
        self._shift_of: dict[int, float] = {}  # by stream
        self._end_of: dict[int, float] = {}

    @property
    def latest(self) -> float:
        """Seconds to subtract since the last jump, for a stream whose own timestamps do not show jumps."""
        return self._shifts[-1]

    def shift(self, stream: int, stamp: float, duration: float) -> float:
        """Seconds to subtract from the timestamps of the next packet of a stream, from its decoding timestamp and
        duration in seconds."""
        shift, end = self._shift_of.get(stream, 0.0), self._end_of.get(stream)
        if end is not None and stamp - shift - end > self._longest:
            # The shift of another stream, if it fits, so that sound stays with its frames.
            fitting = [earlier for earlier in self._shifts if abs(stamp - earlier - end) <= self._longest]
            if fitting:
                shift = fitting[-1]
            else:
                self._lengths.append(stamp - end - shift)
                shift = stamp - end
                self._shifts.append(shift)
            self._shift_of[stream] = shift
        self._end_of[stream] = stamp - shift + duration
        return shift
