"""The paper's numbers: consistency, as the paper repeats some and computes some from others."""

from collections.abc import Mapping
from itertools import pairwise

import pytest

from pipelines.evaluation.paper_tables import TABLES, Number

METRICS = ("AP", "mIoU", "AUC-ROC", "F1")


def row_of(table: str, label: str) -> Mapping[str, Number]:
    return TABLES[table].rows[label]


def test_tables_have_the_rows_and_numbers_of_the_paper() -> None:
    counts = {name: (len(table.rows), sum(map(len, table.rows.values()))) for name, table in TABLES.items()}
    assert counts == {
        "table1": (12, 29),
        "table2": (8, 20),
        "table3": (15, 75),
        "table4a": (4, 4),
        "table4b": (4, 4),
        "table4c": (5, 5),
        "table7": (2, 8),
        "table8": (4, 16),
        "table9": (4, 8),
    }


@pytest.mark.parametrize("name", TABLES)
def test_paper_numbers_are_percentages_in_known_columns(name: str) -> None:
    table = TABLES[name]
    for label, row in table.rows.items():
        assert set(row) <= set(table.columns), label
        for column, value in row.items():
            if column == "Sum":
                assert 0 < value.mean < 400
            elif column not in ("gain", "short to long"):
                assert 10 < value.mean < 100, (label, column)
            if value.deviation is not None:
                assert 0 < value.deviation < 1.1, (label, column)


def test_fine_tuned_rows_have_deviations() -> None:
    for name in ("table2", "table3", "table4a", "table4b", "table4c"):
        for row in TABLES[name].rows.values():
            assert all(v.deviation is not None for column, v in row.items() if column != "Sum")
    rows = TABLES["table1"].rows
    fine_tuned = {label for label, row in rows.items() for v in row.values() if v.deviation is not None}
    assert fine_tuned == {"BaSSL (10 epochs)", "BaSSL (40 epochs)"}


@pytest.mark.parametrize("label", TABLES["table3"].rows)
def test_sums_equal_the_sum_of_the_four_metrics(label: str) -> None:
    row = row_of("table3", label)
    # The paper is one off in P7 (194.43 is the sum), and rounds P4 from more digits than it prints.
    off = 1.0 if label == "P7" else 0.0
    assert row["Sum"].mean == pytest.approx(sum(row[m].mean for m in METRICS) + off, abs=0.011)


def test_bassl_rows_agree_between_tables() -> None:
    ten, forty = row_of("table1", "BaSSL (10 epochs)"), row_of("table1", "BaSSL (40 epochs)")
    assert ten["AP"] == Number(56.26, 0.04)
    for table, label in (("table4a", "DTW (ours)"), ("table4b", "8"), ("table4c", "10")):
        assert row_of(table, label)["AP"] == ten["AP"]
    assert row_of("table2", "M7 BaSSL")["Transformer"] == ten["AP"]
    assert all(row_of("table3", "P15")[metric] == ten[metric] for metric in METRICS)
    assert row_of("table4c", "40")["AP"] == forty["AP"]


@pytest.mark.parametrize(
    ("table", "column", "best"),
    [
        *(("table1", metric, "BaSSL (40 epochs)") for metric in METRICS),
        *(("table3", metric, "P15") for metric in (*METRICS, "Sum")),
        ("table4a", "AP", "DTW (ours)"),
        ("table4b", "AP", "12"),
        ("table4c", "AP", "40"),
        *(("table8", column, "BaSSL (ours)") for column in TABLES["table8"].columns),
    ],
)
def test_numbers_printed_in_bold_are_the_best(table: str, column: str, best: str) -> None:
    numbers = {label: row[column].mean for label, row in TABLES[table].rows.items() if column in row}
    assert numbers[best] == max(numbers.values())


@pytest.mark.parametrize("label", TABLES["table8"].rows)
def test_changes_from_short_to_long_scenes_are_relative(label: str) -> None:
    row = row_of("table8", label)
    change = 100 * (row["Long (32)"].mean / row["Short (8)"].mean - 1)
    assert row["short to long"].mean == pytest.approx(change, abs=0.011)


def test_gains_are_relative_to_the_row_above() -> None:
    rows = list(TABLES["table9"].rows.values())
    assert rows[0]["gain"].mean == 0
    for above, row in pairwise(rows):
        assert row["gain"].mean == pytest.approx(100 * (row["NMI"].mean / above["NMI"].mean - 1), abs=0.011)
