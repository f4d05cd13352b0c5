"""Self-supervised pre-training (section 3 and appendix A): windows of shots in, a model out.

It learns from keyframes, and then the shot encoder is trained too, or from a feature store of a frozen encoder, and
then the CRN and the heads are trained alone, which runs on a CPU.

:func:`pretrain` runs in this process, as one of several if torchrun's environment says so (``torchrun ... -m
bassl_cli pretrain --index data/index.h5``).

All random draws are functions of the seed, the step and the window, never of what ran before. So a run that was stopped
continues with the same numbers, and several processes draw what one would (but for dropout, which each process draws
for itself). With three or more processes they are the same up to rounding, because in the first step after a start DDP
sums gradients in another order.
"""

from __future__ import annotations

from collections.abc import Callable

from pipelines.errors import explain_missing_extra
from pipelines.progress import TrainingProgress
from pipelines.stages.pretrain.settings import PretrainResult, PretrainSettings

__all__ = ["PretrainResult", "PretrainSettings", "pretrain"]


@explain_missing_extra("pretrain")
def pretrain(
    settings: PretrainSettings = PretrainSettings(), progress: Callable[[TrainingProgress], None] | None = None
) -> PretrainResult:
    """Pre-train a model; as one process of several where torchrun started it.

    In the main thread, SIGTERM and SIGINT (Ctrl-C) end the run after the current step, and its state is saved.
    Train one model at a time in a process: runs in two of its threads would share the random numbers of torch.
    ``progress`` is called every ``log_steps`` steps and after an epoch, in the first process only. Raises BasslError
    for settings or data that cannot be used, or a folder that holds another run.
    """
    from pipelines.stages.pretrain import loop  # start-up time: torch

    return loop.run(settings, progress or (lambda state: None))
