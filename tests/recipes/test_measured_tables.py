"""The measured tables of docs/reproduce.md: replaced row by row, in tables that the page has."""

from __future__ import annotations

import re

import pytest

from pipelines.stages.reproduce import Measured, RowResult, TableResult
from recipes.measured_tables import PAGE, lines_of, with_rows

COLUMNS = {
    "table1": ("AP", "mIoU", "AUC-ROC", "F1"),
    "table2": ("MLP", "MS-LSTM", "Transformer"),
    "table3": ("AP", "mIoU", "AUC-ROC", "F1", "Sum"),
    **dict.fromkeys(("table4a", "table4b", "table4c"), ("AP",)),
    "table8": ("Short (8)", "Medium (16)", "Long (32)", "short to long"),
}
"""By table, what a reproduction measures."""


def table(name: str, protocol: str, *labels: str) -> TableResult:
    cells = {column: Measured((0.25, 0.75)) for column in COLUMNS[name]}
    rows = tuple(RowResult(label, cells, note="CGM", finished="2030-01-02 03:04") for label in labels)
    return TableResult(name, protocol, COLUMNS[name], (*rows, RowResult("not run")))


def test_measured_rows_replace_those_of_the_page_and_others_keep_their_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    changed = with_rows(page, "table1, generated videos", *lines_of([table("table1", "", "GraphCut", "new")]))
    pairs = zip(page.splitlines(), [line for line in changed.splitlines() if "| new |" not in line], strict=True)
    lines = [after for before, after in pairs if before != after]
    measured = " | ".join(["50.0 ± 35.4"] * 4)
    assert lines in ([], [f"| GraphCut | 14.10 | {measured} | 2030-01-02 |"])
    assert f"\n| new | - | {measured} | 2030-01-02 |\n" in changed


@pytest.mark.parametrize("marker", re.findall("<!-- (table.*) -->", PAGE.read_text(encoding="utf-8")))
def test_every_table_of_the_page_has_the_columns_that_are_measured(marker: str) -> None:
    name, data = marker.split(", ")
    ways = [""] if data == "generated videos" else ["trained on bbc, tested on ovsd", "trained on ovsd, tested on bbc"]
    page = PAGE.read_text(encoding="utf-8")
    assert with_rows(page, marker, *lines_of([table(name, way, "new") for way in ways])) != page


def test_a_table_that_the_page_does_not_have_is_refused_with_its_header() -> None:
    with pytest.raises(ValueError, match=r"table1, elsewhere: .* write its header: \|  \| AP, paper \| AP \|"):
        with_rows("# Page\n", "table1, elsewhere", *lines_of([table("table1", "", "GraphCut")]))
