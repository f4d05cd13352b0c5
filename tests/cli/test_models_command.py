"""`bassl models`: training data and scores of each, one line per damaged file; and `bassl import-checkpoint`."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pipelines.models.bassl import BasslSettings, BasslWeights, load_bassl_model, save_bassl_model
from pipelines.models.boundary import BoundaryModel, save_boundary_model
from pipelines.models.checkpoints import save_model
from pipelines.models.networks import CRNSettings, MLPSettings
from pipelines.models.networks.torch_networks import ContextualRelationNetwork, build_network
from pipelines.models.opening import BUILT_IN, open_model
from pipelines.pretext import PretextSettings
from pipelines.stages.models import list_models
from tests.command import Bassl
from tests.released_layout import released_state, save

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


def test_the_built_in_model_is_listed_with_the_figures_of_its_card(tmp_path: Path) -> None:
    (built_in,) = list_models(tmp_path)
    assert (built_in.path, built_in.stage, built_in.encoder) == (BUILT_IN, "built-in", "any encoder")
    assert built_in.data == "bbc (11 videos) and ovsd (14 videos)"
    card = re.sub(r" \[[-.\d]+, [-.\d]+\]", "", CARD.read_text())  # without intervals
    training = open_model().header["training"]
    rows = ("all", "bbc | ovsd", "ovsd | bbc", "the other folds | each of 5")
    for row, result in zip(rows, training["measured"], strict=True):
        cells = " | ".join(f"{100 * result[name]:.1f}" for name in ("ap", "auc", "f1", "miou"))
        assert f"| {row} | {cells} |" in card
    for each in training["sets"]:
        assert f"| {each['set']} | {each['videos']} | {each['shots']} | {each['scene_ends']} |" in card


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
    ],
    ids=["cut short", "no training", "no seeds", "a huge number", "another result"],
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


def test_runs_are_listed_with_their_training_data_and_last_scores(bassl: Bassl) -> None:
    put_pretrained(Path("runs/a"), PretextSettings(tasks=("ssm", "pp")))
    put_pretrained(Path("runs/b"), PretextSettings("simclr-nn", ()))
    Path("runs/b/validation.csv").unlink()
    put_finetuned(Path("runs/fine [x]"))
    put_finetuned(Path("runs/one"), 1, init=None, std={})
    code, out, err = bassl("models")
    assert (code, err) == (0, "")
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in out.splitlines()]
    measured = open_model().header["training"]["measured"][0]
    scores = f"AP {100 * measured['ap']:.1f}, F1 {100 * measured['f1']:.1f}, mIoU {100 * measured['miou']:.1f}"
    shots = "1,100 videos, 1,600,000 shots of data/index.h5, step 1,200"
    mlp, labeled = "fine-tuned: mlp on resnet50-0123456789ab", "190 videos, 290,123 shots of data/index.h5"
    assert lines[1] == ["(the default)", "built-in: relational on any encoder", scores]
    assert lines[3:] == [
        ["runs/a", "pre-trained: bassl (ssm, pp) on resnet50", "kNN@1 50.0, AP of PP 12.5"],
        [shots, "validation"],
        ["runs/b", "pre-trained: simclr-nn on resnet50"],
        [shots],
        ["runs/fine [x]", mlp, "AP 37.5 ± 1.2, F1 30.0, mIoU 40.0"],
        [f"{labeled}; begun with runs/pretrain", "test, 2 seeds"],
        ["runs/one", mlp, "AP 37.5, F1 30.0, mIoU 40.0"],
        [labeled, "test, 1 seed"],
    ]


# --- import-checkpoint ----------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return save(tmp_path / "bassl.ckpt", released_state(4))


def test_a_checkpoint_is_imported_and_an_existing_file_replaced_only_with_overwrite(
    checkpoint: Path, bassl: Bassl
) -> None:
    model = Path("runs/bassl/model.safetensors")
    assert bassl("import-checkpoint", checkpoint) == (0, "", f"wrote {model}\n")
    assert set(load_bassl_model(model).head_names) == {"head_cgm", "head_msm", "head_nce", "head_pp"}
    Path("mine").write_text("a week of training")
    advice = "already exists; name another file with --output, or use --overwrite"
    assert bassl("import-checkpoint", checkpoint, "-o", "mine") == (2, "", f"bassl: mine: {advice}\n")
    assert Path("mine").read_text() == "a week of training"
    assert bassl("import-checkpoint", checkpoint, "-o", "mine", "--overwrite", "--quiet") == (0, "", "")
    assert Path("mine").read_bytes() == model.read_bytes()
    run = bassl("import-checkpoint", checkpoint, "-o", checkpoint, "--overwrite")
    assert (run.code, run.err) == (2, f"bassl: {checkpoint}: is an input of this command; name another file to write\n")


class Evil:
    def __reduce__(self) -> object:
        return os.system, ("touch ran",)


@pytest.mark.parametrize(
    ("path", "words"),
    [("evil.ckpt", "would run code"), ("cut.ckpt", "cut.ckpt"), (".", ""), ("a" * 300, "file name too long")],
)
def test_what_cannot_be_imported_gives_a_one_line_error_runs_no_code_and_leaves_no_output(
    checkpoint: Path, bassl: Bassl, path: str, words: str
) -> None:
    save(Path("evil.ckpt"), released_state(), callbacks=Evil())
    Path("cut.ckpt").write_bytes(checkpoint.read_bytes()[:5000])
    run = bassl("import-checkpoint", path, "-o", "out/model.safetensors")
    assert (run.code, run.out, len(run.err.splitlines()), words in run.err) == (2, "", 1, True)
    assert not list(Path().glob("out/*"))
    assert not Path("ran").exists()
