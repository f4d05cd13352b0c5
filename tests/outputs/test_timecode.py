"""SMPTE timecode: against published values and OpenTimelineIO's arithmetic."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from pipelines.outputs.exports.timeline import DROP_RATES, parse_smpte, smpte
from tests.outputs.exporting import NTSC, RATES


@pytest.mark.parametrize(
    ("frame", "label"),
    [
        (1799, "00:00:59;29"),
        (1800, "00:01:00;02"),
        (17981, "00:09:59;29"),
        (17982, "00:10:00;00"),
        (107_892, "01:00:00;00"),
        (2_589_407, "23:59:59;29"),
    ],
)
def test_drop_frame_labels_equal_published_examples(frame: int, label: str) -> None:
    assert smpte(frame, NTSC, True) == label
    assert parse_smpte(label, 30) == (frame, True)


def test_labels_begin_again_after_24_hours() -> None:
    assert smpte(2_589_408 + 1800, NTSC, True) == "00:01:00;02"


@given(frame=st.integers(0, 2_000_000), rate=st.sampled_from(RATES), drop=st.booleans())
def test_parsing_a_label_gives_its_frame_back(frame: int, rate: Fraction, drop: bool) -> None:
    drop = drop and rate in DROP_RATES
    assert parse_smpte(smpte(frame, rate, drop), round(rate)) == (frame, drop)


@given(frame=st.integers(0, 2_000_000), rate=st.sampled_from(RATES))
def test_timecodes_agree_with_opentimelineio(frame: int, rate: Fraction) -> None:
    opentime = pytest.importorskip("opentimelineio").opentime
    theirs = opentime.to_timecode(opentime.RationalTime(frame, float(rate)), float(rate), rate in DROP_RATES)
    assert smpte(frame, rate, rate in DROP_RATES) == theirs


@pytest.mark.parametrize(
    "text", ["", "00:00:00", "00:60:00:00", "00:00:00:30", "00:01:00;00", "00:01:00;01", "a:b:c:d"]
)
def test_invalid_timecode_labels_are_not_parsed(text: str) -> None:
    assert parse_smpte(text, 30) is None
    assert parse_smpte("00:00:00;00", 25) is None
