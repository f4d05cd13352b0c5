"""Fine-tuning (section 3.4 and appendix A): labeled videos in, a model that scores scene ends out.

The shot encoder is frozen, so its features are computed once. A contextual relation network (CRN) and its head are
trained on them, once for each seed. :func:`finetune` runs in this process, which is one of several if torchrun started
it (``torchrun ... -m bassl_cli finetune --index data/index.h5``).

The epoch is chosen on the validation split; on MovieNet it is the last one, as in the release. The result has the
metrics of the release: a shot is a scene end if softmax gives it at least one half. The model files also contain a
calibration, fitted on the validation split, that moves a score of 0.5 to the best F1; the result lists F1 and mIoU at
that point as ``f1_calibrated`` and ``miou_calibrated``.

All random draws are functions of the seed and the step, never of earlier draws: a stopped run continues with the same
numbers, and several processes learn the same as one (except dropout, which each process draws for itself).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from pipelines.errors import explain_missing_extra
from pipelines.options import resolve_settings
from pipelines.progress import TrainingProgress
from pipelines.stages.finetune.settings import FinetuneResult, FinetuneSettings

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import FinetuneOptions

__all__ = ["FinetuneResult", "FinetuneSettings", "finetune"]


@explain_missing_extra("finetune")
def finetune(
    settings: FinetuneSettings = FinetuneSettings(),
    progress: Callable[[TrainingProgress], None] | None = None,
    **options: Unpack[FinetuneOptions],
) -> FinetuneResult:
    """Fine-tune a model, as one of several processes if torchrun started this one.

    In the main thread, SIGTERM and SIGINT (Ctrl-C) end the run after the current step, and its state is saved.
    Train one model at a time in a process: two threads would share torch's random generator.
    ``progress`` is called in the first process only: every ``log_steps`` steps, after each epoch, and with notes.
    Raises BasslError for unusable settings or data, a folder that contains another run, or a loss that is not finite.
    """
    settings = resolve_settings(FinetuneSettings, settings, options)
    from pipelines.stages.finetune import task  # start-up time: torch

    return task.run(settings, progress or (lambda state: None))
