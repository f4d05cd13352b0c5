"""Pre-training from pixels without labels improves fine-tuning."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.options import with_options
from pipelines.progress import TrainingProgress
from pipelines.stages.finetune import FinetuneSettings, finetune
from pipelines.stages.pretrain import pretrain
from tests.generated_videos import write_generated_videos
from tests.training_runs import KEYFRAMES, pretraining

SPLITS = {seed: ("train", "train", "train", "val", "test", "test")[seed % 6] for seed in range(12)}


@pytest.mark.minutes
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1])
def test_pre_training_on_generated_videos_beats_none(tmp_path: Path, seed: int) -> None:
    index = write_generated_videos(tmp_path, SPLITS, scenes=12, shots_per_scene=(4, 8))
    sizes = {"neighbors": 4, "batch": 32, "width": 64, "heads": 4}
    keyframes = {**KEYFRAMES, "encoder": "timm:test_resnet"}
    settings = pretraining(index, tmp_path / "bassl", epochs=8, base_rate=6.0, seed=seed, **sizes, **keyframes)
    states: list[TrainingProgress] = []
    result = pretrain(settings, states.append)
    epoch = states[: result.steps // settings.epochs]
    for task in ("ssm", "cgm", "pp"):
        assert result.losses[task] < sum(state.losses[task] for state in epoch) / len(epoch), task
    # The same network with the statistics of its norms, and weights as they began.
    nothing = with_options(settings, output=tmp_path / "nothing", epochs=1, base_rate=1e-12, warm_up=0.0)
    pretrain(nothing)
    after = with_options(
        FinetuneSettings,
        index=index,
        epochs=20,
        rate=3e-3,
        **sizes,
        seeds=1,
        seed=seed,
        device="cpu",
        workers=0,
        feature_folder=tmp_path / "features",
    )
    precision = {
        run.name: finetune(after, init=str(run), transfer=transfer, output=tmp_path / f"after-{run.name}").mean["ap"]
        for run, transfer in ((nothing.run.output, "encoder"), (settings.run.output, "encoder+crn"))
    }
    assert precision["bassl"] > precision["nothing"] + 0.1, precision
