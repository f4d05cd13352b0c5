"""Fine-tuning (section 3.4 and appendix A): labelled videos in, a model that finds scene ends out.

The shot encoder is frozen, so its features are computed once; a contextual relation network (CRN) and its head are
trained on them, several times over, each from another seed. :func:`finetune` runs in this process, as one of several if
torchrun's environment says so (``torchrun ... -m bassl_cli finetune --index data/index.h5``).

The epoch is chosen on the validation split. Metrics in the result are those of the release: a shot is a scene end where
softmax gives it at least one half. The model files also hold a calibration, fitted on the validation split, that puts a
score of 0.5 where F1 is best; F1 and mIoU at that point are beside the others, as ``f1_calibrated`` and
``miou_calibrated``.

All random draws are functions of the seed and the step, never of what ran before: a run that was stopped continues with
the same numbers, and several processes learn what one would (but for dropout, which each process draws for itself).
"""

from __future__ import annotations

from collections.abc import Callable

from pipelines.errors import explain_missing_extra
from pipelines.progress import TrainingProgress
from pipelines.stages.finetune.settings import FinetuneResult, FinetuneSettings

__all__ = ["FinetuneResult", "FinetuneSettings", "finetune"]


@explain_missing_extra("finetune")
def finetune(
    settings: FinetuneSettings = FinetuneSettings(), progress: Callable[[TrainingProgress], None] | None = None
) -> FinetuneResult:
    """Fine-tune a model; as one process of several where torchrun started it.

    In the main thread, SIGTERM and SIGINT (Ctrl-C) end the run after the current step, and its state is saved.
    Train one model at a time in a process: runs in two of its threads would share the random numbers of torch.
    ``progress`` is called every ``log_steps`` steps, after an epoch, and with notes, in the first process only. Raises
    BasslError for settings or data that cannot be used, a folder that holds another run, or a loss that is not a
    number.
    """
    from pipelines.stages.finetune import loop  # start-up time: torch

    return loop.run(settings, progress or (lambda state: None))
