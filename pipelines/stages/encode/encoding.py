"""Encoding the shots of an index: its videos shared among processes, or among the workers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import BasslError, DatasetError, SomeFailedError, StoreError
from pipelines.models.shot_encoder import ShotEncoder
from pipelines.processes import cores
from pipelines.progress import ReportProgress
from pipelines.stages.encode.cluster import encode_on_dask
from pipelines.stages.encode.parts import StoreInParts
from pipelines.stages.encode.settings import EncodeSettings
from pipelines.stages.encode.video import encode_video, open_encoder
from pipelines.stores.index import Index, read_index
from pipelines.stores.lookup import store_path
from pipelines.training.peers import Peer, broadcast_from_rank0, gather


def encode(
    settings: EncodeSettings, device: str, report: ReportProgress, process: Peer, used: Sequence[int] | None
) -> Path:
    """Make a feature store; see :func:`pipelines.stages.encode.encode_shots`. ``device`` is where this process
    encodes; ``report`` is called in the first one only."""
    report = report if process.is_first else lambda doing, done, total: None
    index = read_index(settings.index)
    used = index.videos_of(labelled=settings.labelled) if used is None else used
    if not used:
        raise StoreError(f"{settings.index}: has no labelled videos; leave --labelled out")
    index.check_keyframes(used)
    encoder = open_encoder(settings, index, device)
    store = StoreInParts(store_path(settings.run.output, encoder.id), encoder.id, index, used)
    # Only the first process lists what is missing: others could see other files, and divide the work differently.
    missing = broadcast_from_rank0(process, lambda: store.begin(settings.run.overwrite))
    if not missing:
        return store.path
    # Long videos first, in turns: no process waits for another for longer than a video takes.
    missing.sort(key=lambda video: -len(index.rows([video])))
    failed: dict[int, str] = {}
    fault: BasslError | None = None
    try:
        if settings.parallel.dask:
            failed = encode_on_dask(settings, index, missing, encoder.id, report)
        else:
            threads = settings.workers or max(1, cores() // process.world_size)
            failed = _encode_videos(index, encoder, missing[process.rank :: process.world_size], threads, store, report)
    except BasslError as error:
        fault = error
    outcomes = gather(process, (failed, fault))  # waits until all have done their share
    if fault := next((fault for _, fault in outcomes if fault), None):
        raise fault
    failed = {video: why for each, _ in outcomes for video, why in each.items()}
    broadcast_from_rank0(process, store.join)
    if failed:
        lacks = "lacks, or has earlier features of," if settings.run.overwrite else "lacks"
        what = f"{store.path}: {lacks} {len(failed)} of {len(used)} videos; repair them and run again, or delete what "
        what += "is damaged and leave them out with `bassl build-index --only-complete`"
        raise SomeFailedError(what, tuple(failed.values()))
    return store.path


def _encode_videos(
    index: Index, encoder: ShotEncoder, videos: Sequence[int], threads: int, store: StoreInParts, report: ReportProgress
) -> dict[int, str]:
    """Encode videos into parts of the store; by video, why those failed whose keyframes cannot be read."""
    failed: dict[int, str] = {}
    total, before = len(index.rows(videos)), 0
    for video in videos:

        def count(shots: int, before: int = before) -> None:
            report("encoding", before + shots, total)

        try:
            encoded = encode_video(index, encoder, video, threads, count)
        except (DatasetError, StoreError) as error:
            failed[video] = str(error)
        else:
            store.keep(video, *encoded)
        before += len(index.rows([video]))
        report("encoding", before, total)
    return failed
