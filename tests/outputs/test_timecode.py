"""SMPTE timecode: against published values and OpenTimelineIO's arithmetic."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from pipelines.outputs.exports.timeline import edit_rate, may_drop, parse_smpte, smpte
from tests.outputs.exporting import NTSC, RATES, VIDEO_23

DROPPING = (NTSC, Fraction(60000, 1001))


@pytest.mark.parametrize(
    ("frame", "label"),
    [
        (1799, "00:00:59;29"),
        (1800, "00:01:00;02"),
        (17981, "00:09:59;29"),
        (17982, "00:10:00;00"),
        (107_892, "01:00:00;00"),
        (2_589_408, "24:00:00;00"),
    ],
)
def test_drop_frame_labels_equal_published_examples(frame: int, label: str) -> None:
    assert smpte(frame, NTSC, True) == label
    assert parse_smpte(label, NTSC) == (frame, True)


@given(frame=st.integers(0, 4_000_000), rate=st.sampled_from(RATES), drop=st.booleans())
def test_parsing_a_label_gives_its_frame_back(frame: int, rate: Fraction, drop: bool) -> None:
    drop = drop and may_drop(rate)
    assert parse_smpte(smpte(frame, rate, drop), rate) == (frame, drop)


@given(frame=st.integers(0, 2_000_000), rate=st.sampled_from(RATES))
def test_timecodes_agree_with_opentimelineio(frame: int, rate: Fraction) -> None:
    opentime = pytest.importorskip("opentimelineio").opentime
    theirs = opentime.to_timecode(opentime.RationalTime(frame, float(rate)), float(rate), may_drop(rate))
    assert smpte(frame, rate, may_drop(rate)) == theirs


@pytest.mark.parametrize("rate", DROPPING, ids=str)
def test_drop_frame_keeps_up_with_the_clock(rate: Fraction) -> None:
    for hours in range(1, 24):
        frame = round(hours * 3600 * rate)
        hour, minute, rest = smpte(frame, rate, True).split(":")
        second, label = map(int, rest.split(";"))
        shown = int(hour) * 3600 + int(minute) * 60 + second + label / round(rate)
        assert abs(shown - hours * 3600) < 0.15


def test_drop_frame_is_refused_at_whole_frame_rates() -> None:
    with pytest.raises(ValueError, match="no drop-frame timecode at 30"):
        smpte(0, Fraction(30), True)
    assert parse_smpte("00:00:00;00", Fraction(25)) is None


@pytest.mark.parametrize(
    "text", ["", "00:00:00", "00:60:00:00", "00:00:00:30", "00:01:00;00", "00:01:00;01", "a:b:c:d"]
)
def test_invalid_timecode_labels_are_not_parsed(text: str) -> None:
    assert parse_smpte(text, NTSC) is None


@pytest.mark.parametrize(
    ("measured", "rate"),
    [
        (23.976, VIDEO_23),
        (23.98, VIDEO_23),
        (float(VIDEO_23), VIDEO_23),
        (24.0003, Fraction(24)),
        (25, Fraction(25)),
        (29.97, NTSC),
        (29.9, NTSC),
        (59.94, Fraction(60000, 1001)),
        (119.88, Fraction(120000, 1001)),
        (17.43, Fraction(17)),
        (0.2, Fraction(1)),
    ],
)
def test_the_nearest_editing_rate_is_chosen(measured: float, rate: Fraction) -> None:
    assert edit_rate(measured) == rate
