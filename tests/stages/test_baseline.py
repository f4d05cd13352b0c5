"""`bassl baseline`: settings chosen on the training videos only, several feature sets, and errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from pipelines.baselines import SYSTEMS
from pipelines.baselines.graphs import GraphCutSettings, graph_cut
from pipelines.errors import BasslError
from pipelines.evaluation.metrics import average_precision
from pipelines.models.encoder_loading import load_encoder
from pipelines.options import with_options
from pipelines.stages.baseline import baseline
from pipelines.stages.finetune import finetune
from pipelines.stages.settings import BaselineSettings
from pipelines.stores.index import NO_LABEL, read_index
from tests.command import Bassl
from tests.labeled_videos import write_labeled_videos, write_relabeled
from tests.scored_things import plain
from tests.small_stores import features_in, put_features, put_store, refusal


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labeled_videos(tmp_path_factory.mktemp("labeled"))


def test_scores_and_scenes_are_those_of_the_system(index: Path) -> None:
    result = baseline(system="graph-cut", index=index)
    (note,) = result.notes
    assert note.startswith("settings chosen on 4 videos: threshold ")
    opened = read_index(index)
    rows = np.arange(opened.first_row[4], opened.first_row[5])
    features = features_in(index.with_name("features"))["e"]
    found = graph_cut(features, opened.seconds[rows], GraphCutSettings(threshold=float(note.split()[-1])))
    known = opened.label[rows] != NO_LABEL
    labels = opened.targets(rows)
    assert result.measures["ap"].value == pytest.approx(average_precision(labels[known], found.score[known]))
    assert result.measures["f1"].value == pytest.approx(f1_score(labels[known], found.labels[known]))
    assert [video.video for video in result.videos] == ["e"]


def test_test_labels_do_not_affect_the_chosen_settings(index: Path, tmp_path: Path) -> None:
    """With other labels of the test video the same settings are chosen and the same scenes found."""
    opened = read_index(index)
    label = opened.label.copy()
    own = slice(opened.first_row[4], opened.first_row[5])
    label[own] = np.roll(label[own], 2)
    other = write_relabeled(index, tmp_path / "index.h5", label)
    one, two = (baseline(system="dp", index=path) for path in (index, other))
    assert one.notes == two.notes
    np.testing.assert_array_equal(one.videos[0].scores, two.videos[0].scores)
    assert one.measures["f1"].value != two.measures["f1"].value


@pytest.mark.parametrize("system", ["dp", "siamese"])
def test_the_scored_split_is_not_used_for_training(index: Path, system: str) -> None:
    settings = with_options(BaselineSettings, system=system, index=index, split="val", seeds=1)
    one, other = baseline(settings), baseline(settings, splits=("train",))
    assert [video.video for video in one.videos] == ["d"]
    assert one.notes == other.notes
    np.testing.assert_array_equal(one.videos[0].scores, other.videos[0].scores)


def test_without_labeled_videos_to_choose_by_the_settings_are_the_defaults(index: Path) -> None:
    assert baseline(index=index, splits=()).notes[0].endswith("defaults")
    assert baseline(index=index, split="all").notes[-1].endswith("defaults"), "a scored video chooses no settings"


@pytest.mark.slow
def test_systems_with_networks_report_seeds_and_accept_further_feature_sets(index: Path, tmp_path: Path) -> None:
    opened = read_index(index)
    ends = [opened.targets(np.arange(a, b)) for a, b in zip(opened.first_row, opened.first_row[1:], strict=False)]
    sound = {
        name: np.stack([marks, np.cumsum(marks) % 2], axis=1).astype(np.float32)
        for name, marks in zip(opened.video_ids, ends, strict=True)
    }
    put_features(tmp_path / "sound", "sound", sound)
    settings = with_options(BaselineSettings, system="lgss", index=index, seeds=2)
    alone, both = (baseline(one) for one in (settings, replace(settings, extra=(tmp_path / "sound",))))
    assert set(alone.seeds["ap"].values) == {0, 1}
    assert (both.videos[0].scores != alone.videos[0].scores).any()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system": "lstm"}, ("unknown system 'lstm'", *SYSTEMS)),
        ({"split": "none"}, ("has no labels for the split 'none'", "test, train, val")),
        ({"splits": ("train", "vla")}, ("has no split 'vla'", "test, train, val")),
        ({"system": "siamese", "splits": ("val",)}, ("siamese needs two labeled videos",)),
        ({"system": "dp", "extra": (Path("sound"),)}, ("dp takes one feature set", "grouping, lgss")),
        ({"resamples": 100_001}, ("resamples must be from 0 to 100,000",)),
    ],
)
def test_unusable_settings_give_a_one_line_error(index: Path, changes: dict[str, Any], words: tuple[str, ...]) -> None:
    refusal(lambda: baseline(index=index, **changes), *words, error=Exception)


def test_features_of_encode_are_found_and_otherwise_encode_is_suggested(bassl: Bassl, tmp_path: Path) -> None:
    for seed, name in enumerate("ab"):
        put_store(tmp_path / "stores" / f"{name}.h5", 8, 1, seed=seed)
    assert bassl("build-index", tmp_path / "stores").code == 0
    label = np.tile([0, 0, 0, 1], 4).astype(np.int8)
    write_relabeled(Path("data/index.h5"), Path("labeled.h5"), label, ["train", "test"])
    command = ("baseline", "dp", "--index", "labeled.h5", "--json")
    refused = bassl(*command)
    assert (refused.code, refused.out) == (2, "")
    own = load_encoder("efficientnet_lite0", "cpu", 1).id
    assert f"labeled.h5: has no features of {own}; run `bassl encode`, or pass a store with --features" in refused.err
    assert bassl("encode", "labeled.h5").code == 0
    (store,) = Path("data/features").iterdir()
    found = bassl(*command, "--table", "dp.md")
    assert (found.code, Path("dp.md").read_text().startswith("| metric ")) == (0, True)
    assert plain(found.out)["metrics"]["ap"]["pooled"] == pytest.approx(  # type: ignore[index]
        baseline(system="dp", index="labeled.h5").measures["ap"].value
    )
    assert found.out == bassl(*command, "--features", store).out
    put_features(Path("data/features/a"), "a", {name: np.eye(8, dtype=np.float32) for name in "ab"})
    assert bassl(*command).out == found.out, "the store of the default encoder is taken"


def test_a_store_must_be_named_where_the_index_has_features_of_several_encoders(index: Path, tmp_path: Path) -> None:
    opened = read_index(index)
    (features,) = opened.features.values()
    both = {"made up": features, "other": features}
    write_relabeled(index, tmp_path / "index.h5", opened.label, features=both)
    words = ("index.h5: has features of several encoders", "`features`")
    refusal(lambda: baseline(index=tmp_path / "index.h5"), *words, error=BasslError)
    options = {"init": "none", "output": tmp_path / "run", "device": "cpu"}
    refusal(lambda: finetune(index=tmp_path / "index.h5", **options), *words, error=BasslError)
