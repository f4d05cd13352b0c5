import csv
import io
import math
from pathlib import Path

from pipelines.errors import BasslError
from pipelines.evaluation.bootstrap import Measure
from pipelines.evaluation.metrics import KnnPrecision, SceneClustering
from pipelines.outputs.tables import TextTable, check_table, comma_separated, latex, markdown
from pipelines.stages.score import Representation, ScoreResult, save_table, table_of
from pipelines.stages.settings import ScoreSettings
from tests.small_stores import refusal

AP = Measure(0.4163, (0.4, 0.4322), 0.45, (0.41, 0.49))
MIOU = Measure(None, None, 0.5, (0.4, 0.6))
RESULT = ScoreResult("runs/a_b", (), {"ap": AP, "miou": MIOU}, 0.5, ScoreSettings())
ODD = TextTable(("a_b", "50 %"), (("x|y & #1", "1.0 ± 0.1"), ("~^\\{}$", "-")))


def test_table_values_are_percentages() -> None:
    assert table_of(RESULT) == TextTable(
        ("metric", "pooled", "95 % interval", "mean of videos", "95 % interval"),
        (("AP", "41.6", "40.0 to 43.2", "45.0", "41.0 to 49.0"), ("mIoU", "-", "-", "50.0", "40.0 to 60.0")),
    )


def test_metrics_and_intervals_that_are_not_defined_are_left_out() -> None:
    alone = {"ap": Measure(0.4163, None, 0.45, None), "f1": Measure(None, None, None, None)}
    table = table_of(ScoreResult("x", (), alone, 0.5, ScoreSettings()))
    assert table == TextTable(("metric", "pooled", "mean of videos"), (("AP", "41.6", "45.0"),))


def test_seeds_add_a_column() -> None:
    spread = {"ap": {1: 0.41, 2: 0.43}}
    table = table_of(ScoreResult("x", (), RESULT.measures, 0.5, ScoreSettings(), spread))
    assert table.header[-1] == "mean of 2 seeds"
    assert [row[-1] for row in table.rows] == ["42.0 ± 1.4", "-"]
    table = table_of(ScoreResult("x", (), {"ap": AP}, 0.5, ScoreSettings(), {"ap": {3: 0.42}}))
    assert (table.header[-1], table.rows[0][-1]) == ("mean of 1 seed", "42.0")


def test_one_sampled_scene_is_in_the_singular() -> None:
    shown = Representation("e", KnnPrecision({}, {}), (SceneClustering(8, 1, (), math.nan),))
    table = table_of(ScoreResult("x", (), {}, None, ScoreSettings(), representation=shown))
    assert table.rows == (("NMI, 1 scene of 8 shots", "-", "-"),)


def test_markdown_cells_with_bars_keep_their_columns() -> None:
    lines = markdown(ODD).splitlines()
    assert lines[:3] == ["| a_b | 50 % |", "| --- | ---: |", "| x\\|y & #1 | 1.0 ± 0.1 |"]


def test_latex_is_escaped() -> None:
    text = latex(ODD)
    assert "a\\_b & 50 \\% \\\\" in text
    assert "x|y \\& \\#1 & 1.0 $\\pm$ 0.1 \\\\" in text
    assert "\\textasciitilde{}\\textasciicircum{}\\textbackslash{}\\{\\}\\$ & - \\\\" in text
    assert text.startswith("\\begin{tabular}{lr}\n\\toprule\n")
    assert text.endswith("\\bottomrule\n\\end{tabular}\n")


def test_a_csv_table_can_be_read_back() -> None:
    assert list(csv.reader(io.StringIO(comma_separated(ODD)))) == [list(ODD.header), *map(list, ODD.rows)]


def test_the_suffix_selects_the_format_and_another_is_refused_before_any_work(tmp_path: Path) -> None:
    for name, text in {"a.md": "| AP |", "a.tex": "AP &", "a.csv": "AP,", "a.json": '"ap"', "A.MD": "| AP |"}.items():
        save_table(tmp_path / "new" / name, RESULT)
        assert text in (tmp_path / "new" / name).read_text()
    refusal(lambda: check_table(tmp_path / "a.xls", ()), "a.xls", ".md, .tex, .csv or .json", error=BasslError)
