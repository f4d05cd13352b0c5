"""Features of all shots of an index by one frozen encoder, computed once and stored under the encoder's id.

:func:`encode_shots` runs in this process, as one of several if torchrun's environment says so; each encodes its share
of the videos (``bassl encode --gpus 8``).

A feature depends on the keyframes and on the encoder, not on what is encoded with it: on one kind of processor a store
is the same, byte for byte, whatever the number of processes and however often it was interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import explain_missing_extra
from pipelines.options import with_options
from pipelines.progress import ReportProgress
from pipelines.stages.encode.settings import EncodeSettings
from pipelines.training.jobs import Peer, in_group

if TYPE_CHECKING:  # start-up time: torch
    from pipelines.training.distributed import Process

__all__ = ["EncodeSettings", "encode_shots"]


@explain_missing_extra("this encoder, or a job of several processes,")
def encode_shots(
    settings: EncodeSettings = EncodeSettings(),
    progress: ReportProgress | None = None,
    process: Process | None = None,
    videos: Sequence[int] | None = None,
    **options: Any,
) -> Path:
    """Make the feature store of an index and an encoder: a folder with one file per video.

    A file that exists is kept if it has the features of the video's shots in the index.

    Args:
        progress: called with the shots encoded and in all, of the videos that this process encodes, after each group of
            shots; in the first process only.
        process: this one, if it has joined its process group already.
        videos: numbers in the index of those to encode; None: as the settings say.

    Returns: the store, ``<output>/<encoder id>/``.

    Raises:
        SomeFailedError: videos whose keyframes are damaged or missing, or whose files in the store are damaged or of
            another encoder; the store has all others.
        BasslError: one line, for an index without keyframes, an encoder that cannot be loaded, a store that cannot be
            written, or a Dask cluster that does not answer.
    """
    settings = with_options(settings, **options)
    from pipelines.stages.encode.encoding import encode  # start-up time: OpenCV

    report = progress or (lambda doing, done, total: None)
    device = "cpu" if settings.parallel.dask else settings.compute.device  # with Dask only the encoder's id is needed
    if process is None and not in_group():
        return encode(settings, device, report, Peer(0, 1), videos)
    from pipelines.training.distributed import process_group  # optional dependency: torch

    with nullcontext(process) if process else process_group(device) as joined:
        return encode(settings, str(joined.device), report, joined, videos)
