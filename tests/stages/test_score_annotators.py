"""Several truths of one video: each, their mean, and the annotators against each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.errors import BasslError
from pipelines.options import with_options
from pipelines.stages.score import ScoreSettings, score
from pipelines.stages.score.lists import score_annotators
from tests.command import Bassl
from tests.scored_things import plain, put_csv, put_scenes
from tests.small_stores import refusal

QUICK = with_options(ScoreSettings, resamples=0)


@pytest.fixture
def truths(tmp_path: Path) -> tuple[Path, Path]:
    return put_csv(tmp_path / "one" / "a.csv", 0, 20, 40, 50), put_csv(tmp_path / "two" / "a.csv", 0, 20, 50)


def test_a_prediction_has_a_score_against_each_truth_and_their_mean(tmp_path: Path, truths: tuple[Path, Path]) -> None:
    guess = put_scenes(tmp_path / "a.json")  # scenes end at 20 and 40 s
    result = score_annotators(guess, truths, QUICK)
    for truth in truths:
        assert result.scores[str(truth)].measures == score(guess, truth, QUICK).measures
    assert [result.scores[str(truth)].measures["precision"].pooled for truth in truths] == [1.0, 0.5]
    assert result.mean("precision") == 0.75
    assert result.mean("recall") == 1.0


def test_annotators_are_scored_against_each_other_both_ways(tmp_path: Path, truths: tuple[Path, Path]) -> None:
    result = score_annotators(put_scenes(tmp_path / "a.json"), truths, QUICK)
    one, two = map(str, truths)
    assert result.between[one, two].measures["boundary_precision"].pooled == 0.5
    assert result.between[two, one].measures["boundary_recall"].pooled == 0.5
    assert result.agreement("boundary_f1") == pytest.approx(2 / 3)
    assert result.agreement("ap") is None


def test_folders_of_videos_are_matched_by_name(tmp_path: Path, truths: tuple[Path, Path]) -> None:
    guess = put_scenes(tmp_path / "guess" / "a.json")
    alone = score_annotators(guess, truths, QUICK)
    result = score_annotators(guess.parent, [truth.parent for truth in truths], QUICK)
    assert result.mean("f1") == alone.mean("f1")
    assert result.agreement("boundary_f1") == alone.agreement("boundary_f1")


def test_one_truth_or_one_named_twice_is_refused(tmp_path: Path, truths: tuple[Path, Path]) -> None:
    guess = put_scenes(tmp_path / "a.json")
    for named in (truths[:1], (truths[0], truths[0]), (*truths, truths[0])):
        refusal(lambda named=named: score_annotators(guess, named, QUICK), "two truths or more", error=BasslError)


def test_the_command_shows_each_truth_the_mean_and_the_annotators(
    bassl: Bassl, tmp_path: Path, truths: tuple[Path, Path]
) -> None:
    guess = put_scenes(tmp_path / "a.json")
    options = ["score", guess, "--truth", truths[0], "--truth", truths[1]]
    run = bassl(*options)
    assert run.code == 0
    (precision,) = [line for line in run.out.splitlines() if line.startswith("precision")]
    assert precision.split()[1:4] == ["100.0", "50.0", "75.0"]
    content = plain(bassl(*options, "--json", "--table", tmp_path / "t.json").out)
    assert content == json.loads((tmp_path / "t.json").read_text())
    assert content["mean"]["precision"] == 0.75  # type: ignore[index]
    assert bassl(*options, "--compare", guess, guess).code == 2
