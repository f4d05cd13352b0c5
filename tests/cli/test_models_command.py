"""`bassl models`: the list of models with their training data and scores, and one line per damaged file."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pipelines.models.bassl import BasslSettings, BasslWeights, save_bassl_model
from pipelines.models.boundary import BoundaryModel, save_boundary_model
from pipelines.models.checkpoints import SCHEMA, SCHEMA_VERSION, save_model
from pipelines.models.networks import CRNSettings, MLPSettings
from pipelines.models.networks.torch_networks import ContextualRelationNetwork, build_network
from pipelines.models.opening import BUILT_IN, open_model
from pipelines.pretext import PretextSettings
from pipelines.stages.models import ListedModel, list_models
from tests.command import Bassl
from tests.running import ENVIRONMENT

CARD = BUILT_IN.with_name("MODEL_CARD.md")


def put_pretrained(folder: Path, pretext: PretextSettings = PretextSettings(), epochs: int = 4, **changes: Any) -> Path:
    """A pre-trained run as it is after two of its epochs."""
    training = {
        "stage": "pretrain",
        "step": 1200,
        "epochs": epochs,
        "splits": ["train", "val"],
        "data": {"path": "data/index.h5", "videos": 1100, "shots": 1600000},
        "pretext": asdict(pretext),
    }
    weights = BasslWeights(BasslSettings("resnet50", None), {}, {}, {}, json.loads(json.dumps(training)) | changes)
    save_bassl_model(folder / "model.safetensors", weights)
    (folder / "validation.csv").write_text("step,epoch,knn@1,ap_pp\n600,1,0.25,0.1\n1200,2,0.5,0.125\n1800,3,0.")
    return folder


def put_finetuned(folder: Path, runs: int = 2, **changes: Any) -> Path:
    """A fine-tuned run of some seeds that was tested."""
    shape = MLPSettings(1, 4, 4)
    training = {"stage": "finetune", "epoch": 7, "validation": {"ap": 0.25}, "test": {"ap": 0.2, "f1": None}}
    model = BoundaryModel(
        crn="mlp", network=build_network("mlp", shape), shape=shape, encoder="resnet50-0123456789ab", training=training
    )
    save_boundary_model(folder / "model.safetensors", model)
    if runs:
        result = {
            "schema": "bassl.finetune",
            "version": 1,
            "index": {"path": "data/index.h5", "train": {"videos": 190, "shots": 290123, "scene_ends": 25000}},
            "init": "runs/pretrain",
            "selected_on": "val",
            "summary_of": "test",
            "seeds": [{"seed": seed, "epochs": [{}] * 20} for seed in range(runs)],
            "mean": {"ap": 0.375, "f1": 0.3, "miou": 0.4},
            "std": {"ap": 0.0125},
        }
        (folder / "result.json").write_text(json.dumps(result | changes))
        shutil.copy(folder / "model.safetensors", folder / "seed-0.safetensors")
    return folder


def put_nested_settings(file: Path) -> None:
    metadata = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "kind": "boundary", "settings": "[" * 100_000}
    save_file({"weight": np.zeros(1, np.float32)}, file, metadata)


def only(runs: Path) -> ListedModel:
    """The one model beside that in the built_in."""
    _, found = list_models(runs)
    return found


def test_the_built_in_model_is_listed_with_the_figures_of_its_card(tmp_path: Path) -> None:
    (built_in,) = list_models(tmp_path)
    assert (built_in.path, built_in.stage, built_in.method, built_in.encoder) == (
        BUILT_IN,
        "built-in",
        "relational",
        "any encoder",
    )
    assert built_in.data == "bbc (11 videos) and ovsd (14 videos)"
    card = re.sub(r" \[[-.\d]+, [-.\d]+\]", "", CARD.read_text())  # without intervals
    training = open_model().header["training"]
    cross, *blind = training["measured"]

    def cells(result: dict[str, Any]) -> str:
        return " | ".join(f"{100 * result[name]:.1f}" for name in ("ap", "auc", "f1", "miou"))

    assert f"| all | {cells(cross)} |" in card
    rows = {
        "bbc to ovsd": "bbc | ovsd",
        "ovsd to bbc": "ovsd | bbc",
        "nested cross-validation": "the other folds | each of 5",
    }
    for result, (how, row) in zip(blind, rows.items(), strict=True):
        assert result["how"] == how
        assert f"| {row} | {cells(result)} |" in card
    for each in training["sets"]:
        assert f"| {each['set']} | {each['videos']} | {each['shots']} | {each['scene_ends']} |" in card


def test_a_pre_trained_run_is_listed_with_its_last_complete_validation(tmp_path: Path) -> None:
    run = put_pretrained(tmp_path / "runs" / "x", PretextSettings(tasks=("ssm", "pp")))
    assert only(tmp_path) == ListedModel(
        run,
        "pre-trained",
        method="bassl (ssm, pp)",
        encoder="resnet50",
        data="1,100 videos, 1,600,000 shots of data/index.h5, step 1,200",
        scores={"knn@1": 0.5, "ap_pp": 0.125},
        scored_on="validation",
    )
    (run / "validation.csv").unlink()
    put_pretrained(run, PretextSettings("simclr-nn", ()))
    (run / "validation.csv").unlink()
    model = only(tmp_path)
    assert (model.method, model.scores, model.scored_on) == ("simclr-nn", {}, "")


def test_a_fine_tuned_run_is_listed_with_mean_and_deviation(tmp_path: Path) -> None:
    run = put_finetuned(tmp_path / "run")
    assert only(tmp_path) == ListedModel(
        run,
        "fine-tuned",
        method="mlp",
        encoder="resnet50-0123456789ab",
        data="190 videos, 290,123 shots of data/index.h5; begun with runs/pretrain",
        scores={"ap": 0.375, "f1": 0.3, "miou": 0.4},
        deviations={"ap": 0.0125},
        scored_on="test, 2 seeds",
    )
    put_finetuned(run, 1, init=None)
    model = only(tmp_path)
    assert model.scored_on == "test, 1 seed"
    assert model.data == "190 videos, 290,123 shots of data/index.h5"


def test_unfinished_runs_imported_models_and_files_without_a_run_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a begun").mkdir()
    (tmp_path / "a begun" / "state.pt").touch()
    crn = CRNSettings(1, 4, 4, 1, 1, 4)
    weights = ContextualRelationNetwork(crn).state_dict()
    save_bassl_model(
        tmp_path / "b theirs" / "model.safetensors", BasslWeights(BasslSettings("resnet50", crn), {}, weights, {})
    )
    (tmp_path / "c mine").mkdir()
    shutil.copy(BUILT_IN, tmp_path / "c mine" / "model.safetensors")
    shutil.copy(put_finetuned(tmp_path / ".hidden", 0) / "model.safetensors", tmp_path / "mine.safetensors")
    models = list_models(tmp_path)[1:]
    assert [(model.path.name, model.stage, model.method, model.scores) for model in models] == [
        ("a begun", "unfinished", "", {}),
        ("b theirs", "imported", "transformer", {}),
        ("c mine", "fine-tuned", "relational", {}),
        ("mine.safetensors", "fine-tuned", "mlp", {"ap": 0.2}),
    ]
    assert models[-1].scored_on == "test"


FACTS = "its facts on training cannot be read"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda run: (run / "model.safetensors").write_bytes(BUILT_IN.read_bytes()[:-10]), "truncated"),
        (lambda run: save_model(run / "model.safetensors", {}, "boundary", {}), FACTS),
        (lambda run: put_finetuned(run, seeds=None), FACTS),
        (lambda run: put_finetuned(run, mean={"ap": 10**400}), FACTS),
        (lambda run: (run / "result.json").write_text("[]"), FACTS),
        (lambda run: put_nested_settings(run / "model.safetensors"), "its settings cannot be read"),
    ],
    ids=["cut short", "no training", "no seeds", "a huge number", "another result", "nested settings"],
)
def test_a_damaged_model_gives_one_line_and_exit_code_1_and_the_others_are_listed(
    tmp_path: Path, bassl: Bassl, damage: Callable[[Path], object], words: str
) -> None:
    put_pretrained(tmp_path / "b good")
    damage(put_finetuned(tmp_path / "a bad"))
    code, out, err = bassl("models", tmp_path, "--json")
    assert code == 1
    assert [model["stage"] for model in json.loads(out)] == ["built-in", "damaged", "pre-trained"]
    (line,) = err.splitlines()
    assert line.startswith(f"bassl: {tmp_path / 'a bad'}")
    assert words in line


# --- the command ------------------------------------------------------------------------------------------------------


def test_a_file_or_a_missing_folder_of_runs_is_refused_unless_it_is_the_default(bassl: Bassl) -> None:
    Path("file").touch()
    assert bassl("models", "file") == (2, "", "bassl: file: is a file; pass the folder of the runs\n")
    assert bassl("models", "nope") == (2, "", "bassl: nope: no such folder; pass the folder of the runs\n")
    assert bassl("models").code == 0


def test_the_name_default_is_the_built_in_model_unless_there_is_a_run_of_that_name(bassl: Bassl) -> None:
    assert open_model("default").built_in
    run = put_finetuned(Path("default"))
    assert open_model("default").path == run


def test_models_prints_a_table(bassl: Bassl) -> None:
    put_finetuned(Path("runs/fine [x]"))
    code, out, err = bassl("models")
    assert (code, err) == (0, "")
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in out.splitlines()]
    measured = open_model().header["training"]["measured"][0]
    scores = f"AP {100 * measured['ap']:.1f}, F1 {100 * measured['f1']:.1f}, mIoU {100 * measured['miou']:.1f}"
    assert lines[1] == ["(the default)", "built-in: relational on any encoder", scores]
    assert lines[3] == [
        "runs/fine [x]",
        "fine-tuned: mlp on resnet50-0123456789ab",
        "AP 37.5 ± 1.2, F1 30.0, mIoU 40.0",
    ]
    assert lines[4] == ["190 videos, 290,123 shots of data/index.h5; begun with runs/pretrain", "test, 2 seeds"]


def test_listing_models_does_not_import_torch(tmp_path: Path) -> None:
    put_pretrained(tmp_path / "x")
    code = (
        "import sys; from pathlib import Path; from pipelines.stages.models import list_models\n"
        "print(len(list_models(Path(sys.argv[1]))), 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, tmp_path]
    ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert ended.stdout == "2 False\n"
