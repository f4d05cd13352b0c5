"""Features of all shots of an index by one frozen encoder, computed once and stored under the encoder's id.

:func:`encode_shots` runs in this process, as one of several if torchrun's environment says so; each encodes its share
of the videos (``bassl encode --gpus 8``).

A feature depends on the keyframes and on the encoder, not on what is encoded with it: on one kind of processor a store
is the same, byte for byte, whatever the number of processes and however often it was interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_doc import Doc

from pipelines.errors import explain_missing_extra
from pipelines.models.encoders.options import EncoderOptions
from pipelines.options import Settings, check_at_least, nested, with_options
from pipelines.progress import ReportProgress
from pipelines.settings import ONLY_TRAINING, Compute, Indexed, Parallel, RunSettings
from pipelines.training.jobs import Peer, in_group

if TYPE_CHECKING:  # start-up time: torch
    from pipelines.training.distributed import Process


@dataclass(frozen=True)
class EncodeSettings(Settings):
    """Which shots are encoded, and by which encoder."""

    data: Annotated[Indexed, Doc("Videos; they need keyframes.")] = nested(Indexed())
    encoder: Annotated[
        str | Path,
        Doc("""Shot encoder: efficientnet_lite0, an ONNX file of an image network, resnet18 to resnet152 or
        timm:NAME (ImageNet weights), or the path of a pre-trained run or model file."""),
    ] = "efficientnet_lite0"
    run: Annotated[RunSettings, Doc("Folder of the feature stores, a folder for each encoder.")] = nested(
        RunSettings(Path("data/features")), without=ONLY_TRAINING
    )
    parallel: Parallel = nested(Parallel(), without=("jobs",))
    labelled: Annotated[bool, Doc("Only videos with labels: all that fine-tuning, scoring and baselines read.")] = False
    compute: Compute = nested(
        Compute(), without=("precision",), defaults={"workers": "the cores are shared out; one with Dask"}
    )
    preparation: Annotated[
        Literal["centre", "squeeze"] | None,
        Doc("""How a keyframe becomes the encoder's square input: centre, shorter side to 8/7 of it and the centre
        cut out, or squeeze, the whole frame. Default: centre for a pre-trained or imported encoder (release), else
        squeeze."""),
    ] = None
    encoder_options: Annotated[EncoderOptions, Doc("For an ONNX file, what its metadata do not say.")] = nested(
        EncoderOptions(), advanced=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self.compute, 1, "workers")


@explain_missing_extra("this encoder, or a job of several processes,")
def encode_shots(
    settings: EncodeSettings = EncodeSettings(),
    progress: ReportProgress | None = None,
    process: Process | None = None,
    videos: Sequence[int] | None = None,
    **options: Any,
) -> Path:
    """Make the feature store of an index and an encoder: a folder with one file per video, ``<output>/<encoder id>/``.
    A file that exists is kept if it has the features of the video's shots in the index.

    Args:
        progress: called with the shots encoded and in all, of the videos that this process encodes, after each group of
            shots; in the first process only.
        process: this one, if it has joined its process group already.
        videos: numbers in the index of those to encode; None: as the settings say.

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
