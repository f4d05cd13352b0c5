"""Self-supervised pre-training (section 3 and appendix A): windows of shots in, a model out.

From keyframes, the shot encoder is trained too. From features of a frozen encoder, only the CRN and the heads are
trained, which a CPU can do.

:func:`pretrain` runs in this process, which is one of several if torchrun started it (``torchrun ... -m bassl_cli
pretrain --index data/index.h5``).

All random draws are functions of the seed, the step and the window, never of earlier draws: a stopped run continues
with the same numbers, and several processes draw the same as one (except dropout, which each process draws for itself).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from pipelines.errors import explain_missing_extra
from pipelines.options import resolve_settings
from pipelines.progress import TrainingProgress
from pipelines.stages.pretrain.settings import PretrainResult, PretrainSettings

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import PretrainOptions

__all__ = ["PretrainResult", "PretrainSettings", "pretrain"]


@explain_missing_extra("pretrain")
def pretrain(
    settings: PretrainSettings = PretrainSettings(),
    progress: Callable[[TrainingProgress], None] | None = None,
    **options: Unpack[PretrainOptions],
) -> PretrainResult:
    """Pre-train a model, as one of several processes if torchrun started this one.

    In the main thread, SIGTERM and SIGINT (Ctrl-C) end the run after the current step, and its state is saved.
    Train one model at a time in a process: two threads would share torch's random generator.
    ``progress`` is called in the first process only: every ``log_steps`` steps and after each epoch. Raises BasslError
    for unusable settings or data, or a folder that contains another run.
    """
    settings = resolve_settings(PretrainSettings, settings, options)
    from pipelines.stages.pretrain import task  # start-up time: torch

    return task.run(settings, progress or (lambda state: None))
