"""Frame rates of editing tools, and SMPTE timecodes (SMPTE ST 12-1), which count frames."""

from __future__ import annotations

import re
from fractions import Fraction

_NTSC_BASES = (24, 30, 48, 60, 120)


def edit_rate(frame_rate: float) -> Fraction:
    """The nearest rate that editing tools support: whole frames per second, or 1000/1001 of 24, 30, 48, 60 or 120.

    >>> edit_rate(23.976), edit_rate(25.0)
    (Fraction(24000, 1001), Fraction(25, 1))
    """
    candidates = [Fraction(max(1, round(frame_rate))), *(Fraction(base * 1000, 1001) for base in _NTSC_BASES)]
    return min(candidates, key=lambda rate: abs(float(rate) - frame_rate))


def timecode_base(rate: Fraction) -> int:
    """The number of frames in a second of timecode: 24 at 23.976, 30 at 29.97."""
    return round(rate)


def may_drop(rate: Fraction) -> bool:
    """Whether drop-frame timecode exists for a rate: only for 29.97 and 59.94."""
    return rate.denominator == 1001 and timecode_base(rate) in (30, 60)


def smpte(frame: int, rate: Fraction, drop: bool) -> str:
    """The timecode ``HH:MM:SS:FF`` of a frame; with ``drop`` ``HH:MM:SS;FF``. Drop-frame leaves out the first two
    labels (four at 59.94) of each minute except every tenth, so that labels keep up with the clock; no frame is lost.
    Raises ValueError for ``drop`` at a rate without drop-frame timecode."""
    base = timecode_base(rate)
    if drop:
        if not may_drop(rate):
            raise ValueError(f"there is no drop-frame timecode at {rate} frames per second")
        dropped = base // 15
        minute = 60 * base - dropped
        tens, rest = divmod(frame, 10 * minute + dropped)
        # The first minute of ten has all its labels.
        frame += dropped * (9 * tens + max(0, rest - dropped) // minute)
    seconds, frames = divmod(frame, base)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{';' if drop else ':'}{frames:02d}"


def parse_smpte(text: str, rate: Fraction) -> tuple[int, bool] | None:
    """Inverse of :func:`smpte`: the frame, and whether the timecode is drop-frame; None for any other text, and for
    labels that drop-frame leaves out."""
    match = re.fullmatch(r"([0-9]{2}):([0-5][0-9]):([0-5][0-9])([:;.])([0-9]{2,3})", text.strip())
    if match is None:
        return None
    hours, minutes, seconds, frames = (int(match[group]) for group in (1, 2, 3, 5))
    base, drop = timecode_base(rate), match[4] != ":"
    if frames >= base or (drop and not may_drop(rate)):
        return None
    dropped = base // 15 if drop else 0
    if minutes % 10 and seconds == 0 and frames < dropped:
        return None
    minutes += 60 * hours
    return (60 * minutes + seconds) * base + frames - dropped * (minutes - minutes // 10), drop
