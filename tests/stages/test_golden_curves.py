"""Golden training curves: a change of the code that is not meant to change training must not change a loss.

Each curve is 20 steps of training on small seeded data: pre-training with BaSSL, ShotCoL (SimCLR NN) and both (M8),
from features and from keyframes; fine-tuning of each kind of network; and fine-tuning of a BaSSL model. The losses and
the learning rate of each step are compared with ``tests/assets/golden_curves.json``.

To record all curves again, overwriting that file::

    python -m tests.stages.test_golden_curves

Do this only if a change of the mathematics is intended (a loss, an initialization, a schedule, an augmentation, the
order of random draws), and explain it in the commit. It is never the way to fix a refactoring that fails here. To add a
curve, add it to ``CURVES`` and record: the diff of the file must have added lines only.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.models.networks.torch_networks import one_thread
from pipelines.options import with_options
from pipelines.pretext import PretextSettings
from pipelines.stages.finetune import FinetuneSettings, finetune
from pipelines.stages.pretrain import PretrainSettings, pretrain
from tests.labeled_videos import write_labeled_videos, write_relabeled
from tests.small_stores import put_indexed_stores
from tests.training_runs import KEYFRAMES, finetuning, pretraining, rows_of_log

GOLDEN = Path(__file__).parents[1] / "assets" / "golden_curves.json"
STEPS = 20
# Relative. Measured with another number of threads, other vector instructions and float64: losses change by up to 6e-7
# on features, and by up to 8e-5 on keyframes, where the encoder amplifies rounding errors.
TOLERANCES = {"features": 1e-4, "keyframes": 1e-3}
COLUMNS = ("learning_rate", "loss", "ssm", "cgm", "pp", "msm", "simclr")

Curve = dict[str, list[float]]
"""Values of each step, by column of the log."""

# Dropout draws its masks with MKL where PyTorch has it, and with another generator elsewhere (ARM).
pytestmark = pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="the curves were recorded with MKL")


@dataclass(frozen=True)
class Inputs:
    """Data of the runs."""

    labeled: Path  # index of labeled videos with stored features
    features: tuple[Path, ...]  # its feature stores
    pictured: Path  # index of labeled videos with stored keyframes


def write_inputs(folder: Path) -> Inputs:
    """Five videos with features, and two with keyframes of noise."""
    labeled = write_labeled_videos(folder)
    pictures = folder / "pictures"
    plain = put_indexed_stores(pictures, {"a": 20, "b": 20})
    labels = np.tile(np.array([0, 0, 0, 1], np.int8), 10)
    pictured = write_relabeled(plain, pictures / "labeled.h5", labels, ["train", "train"])
    return Inputs(labeled, (folder / "features",), pictured)


# The runs


def pretrain_on_features(inputs: Inputs, output: Path, pretext: PretextSettings) -> PretrainSettings:
    """180 shots, in two epochs of ten steps."""
    sizes = {"neighbors": 3, "epochs": 2, "batch": 18, "base_rate": 3.0, "width": 32, "heads": 4}
    data = {"features": inputs.features, "splits": ("train",)}
    return pretraining(inputs.labeled, output, pretext=pretext, precision="float32", **data, **sizes)


def pretrain_on_keyframes(inputs: Inputs, output: Path, pretext: PretextSettings) -> PretrainSettings:
    """40 shots, in four epochs of five steps; the shot encoder is trained too."""
    # At a rate of 3.0, rounding errors of the encoder grow to 1e-2 within 20 steps.
    sizes = {"encoder": "timm:test_resnet", "epochs": 4, "base_rate": 0.1, "width": 32, "heads": 4, **KEYFRAMES}
    return pretraining(inputs.pictured, output, pretext=pretext, precision="float32", **sizes)


def finetune_on_features(inputs: Inputs, output: Path, **options: Any) -> FinetuneSettings:
    """177 labeled shots, in two epochs of ten steps; dropout as the network has it."""
    sizes = {"epochs": 2, "batch": 18, "rate": 1e-3, "dropout": None}
    return finetuning(inputs.labeled, output, **{"precision": "float32", **sizes, **options})


def finetune_transferred(inputs: Inputs, output: Path) -> FinetuneSettings:
    """Fine-tuning that begins with the encoder and the CRN of pre-training with BaSSL (M7)."""
    pretrained = output.with_name(f"{output.name}-pretrained")
    pretrain(pretrain_on_features(inputs, pretrained, PRETEXTS["bassl"]))
    return finetune_on_features(inputs, output, crn="transformer", init=str(pretrained), neighbors=None, width=None)


PRETEXTS = {
    "bassl": PretextSettings(),
    "shotcol": PretextSettings(method="simclr-nn"),
    "m8": PretextSettings(method="bassl+simclr-nn"),
}
NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "transformer": {"heads": 4},
    "mlp": {"width": 256},  # at 32, its losses hardly depend on the optimizer's betas
    "ms-lstm": {"sequence": 5, "batch": 20},  # 39 sequences, four in a step
    "relational": {},
}
CURVES: Mapping[str, Callable[[Inputs, Path], PretrainSettings | FinetuneSettings]] = {
    **{
        f"pretrain-{name}-features": partial(pretrain_on_features, pretext=pretext)
        for name, pretext in PRETEXTS.items()
    },
    **{
        f"pretrain-{name}-keyframes": partial(pretrain_on_keyframes, pretext=pretext)
        for name, pretext in PRETEXTS.items()
    },
    **{f"finetune-{crn}-features": partial(finetune_on_features, crn=crn, **sizes) for crn, sizes in NETWORKS.items()},
    "finetune-bassl-features": finetune_transferred,
}


def train(name: str, inputs: Inputs, folder: Path, **options: Any) -> Curve:
    """The curve of a run, from its log."""
    settings = with_options(CURVES[name](inputs, folder / name), **options)
    if isinstance(settings, PretrainSettings):
        pretrain(settings)
    else:
        finetune(settings)
    rows = rows_of_log(settings)
    return {column: [float(row[column]) for row in rows] for column in COLUMNS if column in rows[0]}


# The comparison


@pytest.fixture(autouse=True)
def on_one_thread() -> Iterator[None]:
    """As the curves were recorded: the number of threads changes the order of sums."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.mark.parametrize("name", CURVES)
def test_training_follows_the_golden_curve(name: str, inputs: Inputs, tmp_path: Path) -> None:
    golden: Curve = json.loads(GOLDEN.read_text())[name]
    tolerance = TOLERANCES[name.rsplit("-", 1)[1]]
    curve = train(name, inputs, tmp_path)
    assert curve.keys() == golden.keys()
    for column, values in golden.items():
        assert len(values) == STEPS
        assert curve[column] == pytest.approx(values, rel=tolerance, abs=0), column


def record() -> None:
    """Train all runs and overwrite the golden curves; see the module's docstring for when to."""
    with tempfile.TemporaryDirectory() as temporary, one_thread():
        folder = Path(temporary)
        inputs = write_inputs(folder)
        curves = {name: train(name, inputs, folder) for name in CURVES}
    # One line for each column of a curve, so that a diff names what changed.
    blocks = [
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"    {json.dumps(column)}: {json.dumps(values)}" for column, values in curve.items())
        + "\n  }"
        for name, curve in curves.items()
    ]
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text("{\n" + ",\n".join(blocks) + "\n}\n")


if __name__ == "__main__":
    record()
