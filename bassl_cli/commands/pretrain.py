"""``bassl pretrain``: self-supervised pre-training, in one process or, with torchrun, in several."""

from __future__ import annotations

from bassl_cli import console
from bassl_cli.options import with_settings
from bassl_cli.training import curves_of, train
from pipelines.stages.pretrain import PretrainSettings, pretrain as stage
from pipelines.training.jobs import Machines


@with_settings(panels={"pretext": "Pretext tasks", "augmentation": "Augmentation of keyframes", "machines": "Machines"})
def pretrain(settings: PretrainSettings, machines: Machines) -> None:
    """Pre-train a model on videos without labels.

    Learns from the keyframes of the videos in an index, or, with --features, from the features of a frozen encoder,
    which runs on a CPU. Defaults are the paper's.

    Example: bassl pretrain --gpus 16 --nodes 2 --node-rank 0 --rdzv-endpoint HOST:29500 --epochs 40
    """
    result = train(stage, settings, machines)
    if result is not None:
        steps = console.count(result.step, "step")
        console.print_info(f"{steps}; wrote {console.display_path(result.model)}; {curves_of(settings.run)}")
        console.suggest_next("pretrain", settings.run.output)
