import csv
import io
from pathlib import Path

from pipelines.errors import BasslError
from pipelines.evaluation.bootstrap import Measure
from pipelines.outputs.tables import TextTable, check_table, comma_separated, latex, markdown
from pipelines.stages.score import ScoreResult, SeedSpread, save_table, table_of
from pipelines.stages.settings import ScoreSettings
from tests.small_stores import refusal

AP = Measure(0.4163, (0.4, 0.4322), 0.45, (0.41, 0.49))
MIOU = Measure(None, None, 0.5, (0.4, 0.6))
RESULT = ScoreResult("runs/a_b", (), {"ap": AP, "miou": MIOU}, 0.5, ScoreSettings())
ODD = TextTable(("a_b", "50 %"), (("x|y & #1", "1.0 ± 0.1"), ("~^\\{}$", "-")))


def test_table_values_are_percentages_and_undefined_metrics_and_intervals_are_left_out() -> None:
    assert table_of(RESULT) == TextTable(
        ("metric", "pooled", "95 % interval", "mean of videos", "95 % interval"),
        (("AP", "41.6", "40.0 to 43.2", "45.0", "41.0 to 49.0"), ("mIoU", "-", "-", "50.0", "40.0 to 60.0")),
    )
    alone = {"ap": Measure(0.4163, None, 0.45, None), "f1": Measure(None, None, None, None)}
    table = table_of(ScoreResult("x", (), alone, 0.5, ScoreSettings()))
    assert table == TextTable(("metric", "pooled", "mean of videos"), (("AP", "41.6", "45.0"),))


def test_seeds_add_a_column() -> None:
    spread = {"ap": SeedSpread({1: 0.41, 2: 0.43})}
    table = table_of(ScoreResult("x", (), RESULT.measures, 0.5, ScoreSettings(), spread))
    assert table.header[-1] == "mean of 2 seeds"
    assert [row[-1] for row in table.rows] == ["42.0 ± 1.4", "-"]
    table = table_of(ScoreResult("x", (), {"ap": AP}, 0.5, ScoreSettings(), {"ap": SeedSpread({3: 0.42})}))
    assert (table.header[-1], table.rows[0][-1]) == ("mean of 1 seed", "42.0")


def test_characters_that_mean_something_in_a_format_are_escaped() -> None:
    assert markdown(ODD).splitlines()[:3] == ["| a_b | 50 % |", "| --- | ---: |", "| x\\|y & #1 | 1.0 ± 0.1 |"]
    assert latex(ODD) == (
        "\\begin{tabular}{lr}\n\\toprule\na\\_b & 50 \\% \\\\\n\\midrule\n"
        "x|y \\& \\#1 & 1.0 $\\pm$ 0.1 \\\\\n"
        "\\textasciitilde{}\\textasciicircum{}\\textbackslash{}\\{\\}\\$ & - \\\\\n"
        "\\bottomrule\n\\end{tabular}\n"
    )
    assert list(csv.reader(io.StringIO(comma_separated(ODD)))) == [list(ODD.header), *map(list, ODD.rows)]


def test_the_suffix_selects_the_format_and_another_is_refused_before_any_work(tmp_path: Path) -> None:
    for name, text in {"a.md": "| AP |", "a.tex": "AP &", "a.csv": "AP,", "a.json": '"ap"', "A.MD": "| AP |"}.items():
        save_table(tmp_path / "new" / name, RESULT)
        assert text in (tmp_path / "new" / name).read_text()
    refusal(lambda: check_table(tmp_path / "a.xls", ()), "a.xls", ".md, .tex, .csv or .json", error=BasslError)
