"""Features of all shots of an index by one frozen encoder: computed once, kept under the encoder's id.

:func:`encode_shots` runs in this process, as one of those that torchrun's environment describes; each takes its share
of the videos, and the first joins what they made. Without the command line::

    torchrun --nproc-per-node 8 -m pipelines.stages.encode --index data/index.h5 --encoder resnet50

A feature depends on the key-frames and on the encoder, not on what is encoded beside it: on one kind of processor a
store comes out the same, byte for byte, whatever the number of processes and however often it was stopped on the way.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BasslError, StoreError

if TYPE_CHECKING:  # the real imports stand where they are used: settings import nothing heavy
    import numpy as np
    from numpy.typing import NDArray

    from pipelines.datasets.keyframe_reader import KeyframeReader
    from pipelines.models.encoders import ShotEncoder
    from pipelines.stores.features import FeatureStore
    from pipelines.stores.index import Index
    from pipelines.training.distributed import Place


@dataclass(frozen=True)
class EncodeSettings:
    """Whose shots are encoded, and by what."""

    index: Path = Path("data/index.h5")
    """Index of the videos; they need key-frames."""
    encoder: str | Path = "efficientnet_lite0"
    """Shot encoder: efficientnet_lite0, resnet18 to resnet152 or timm:NAME (ImageNet weights), or the path of a
    pre-trained run or model file."""
    folder: Path = Path("data/features")
    """Folder of the stores, one an encoder."""
    workers: int | None = None
    """Threads that read, decode and encode, for each process; None shares the cores out."""
    device: str = "auto"
    """Where the encoder runs: auto, cpu or cuda."""
    overwrite: bool = False
    """Make a store again that is there already."""

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1, not {self.workers}")


@dataclass(frozen=True)
class EncodeProgress:
    """How far it is: shots done and in all, of the videos that this process was given, and videos likewise."""

    shots: int
    total: int
    videos: int
    total_videos: int


def encode_shots(
    settings: EncodeSettings = EncodeSettings(),
    progress: Callable[[EncodeProgress], None] | None = None,
    place: Place | None = None,
) -> Path:
    """Make the feature store of an index and an encoder, or find it made.

    What a store or a killed run has already is taken over; videos that are new in the index are added.

    Args:
        settings: all of it.
        progress: told after each group of shots, in the first process only.
        place: of this process, where it has joined the others of its job already.

    Returns:
        the store, ``<folder>/<encoder id>.h5``.

    Raises:
        BasslError: one line, for an index without key-frames, an encoder that cannot be had, damaged key-frames, or a
            store with features of other shots than those of the index.
    """
    from pipelines.training.distributed import process_group

    with process_group(settings.device) if place is None else nullcontext(place) as here:
        return _encode(settings, here, progress if progress and here.is_first else lambda state: None)


def _encode(settings: EncodeSettings, place: Place, tell: Callable[[EncodeProgress], None]) -> Path:
    from pipelines.models.encoders import load_encoder
    from pipelines.stores.index import read_index
    from pipelines.stores.lookup import store_path
    from pipelines.training.distributed import any_process, first_decides

    index = read_index(settings.index)
    for video_id, pictures in zip(index.video_ids, index.pictures, strict=True):
        if pictures is None or not index.keyframes:
            raise StoreError(f"{settings.index}: has no key-frames of {video_id}; run `bassl extract-keyframes`")
    encoder = load_encoder(settings.encoder, str(place.device), index.keyframes)
    store = store_path(settings.folder, encoder.id)
    parts = _Parts(store, encoder.id, index)
    # Only the first looks what is there: others might see it while it changes, and share out something else.
    missing = _told_to_all(place, first_decides(place, lambda: parts.begin(settings.overwrite)))
    if not missing:
        return store
    # Long ones first, in turns: no process waits for another for longer than a video takes.
    missing.sort(key=lambda video: -len(index.rows([video])))
    fault = _encode_videos(settings, index, encoder, missing[place.rank :: place.processes], parts, place, tell)
    failed = any_process(place, fault is not None)  # and by then all have done their share
    if fault is not None:
        raise fault
    if failed:
        raise BasslError(f"{store}: another process of this job could not do its share; what is done is kept")
    first_decides(place, parts.join)
    return store


def _told_to_all(place: Place, videos: list[int] | None) -> list[int]:
    """What the first process knows."""
    if place.processes > 1:
        import torch
        import torch.distributed as dist

        box = [videos]
        dist.broadcast_object_list(box, device=torch.device("cpu"))
        videos = box[0]
    assert videos is not None
    return videos


def _encode_videos(
    settings: EncodeSettings,
    index: Index,
    encoder: ShotEncoder,
    videos: Sequence[int],
    parts: _Parts,
    place: Place,
    tell: Callable[[EncodeProgress], None],
) -> BasslError | None:
    """Encode videos and keep the result of each as it is whole; what stood in the way of one of them."""
    import numpy as np

    from pipelines.datasets.keyframe_reader import KeyframeReader
    from pipelines.models.encoders import encode_groups
    from pipelines.processes import cores

    bounds = {video: (int(index.first_row[video]), int(index.first_row[video + 1])) for video in videos}
    local = threading.local()

    def groups() -> Iterator[tuple[int, NDArray[np.int64]]]:
        for video in videos:
            start, end = bounds[video]
            for first in range(start, end, encoder.shots_at_a_time):
                yield video, np.arange(first, min(first + encoder.shots_at_a_time, end))

    def pictures(group: tuple[int, NDArray[np.int64]]) -> list[list[NDArray[np.uint8]]]:
        # A reader is for one thread; a new one for each video has one file open.
        if getattr(local, "video", None) != group[0]:
            local.video, local.reader = group[0], KeyframeReader(index)
        return _pictures(local.reader, group[1], encoder)

    total, shots, whole = sum(end - start for start, end in bounds.values()), 0, 0
    held: list[NDArray[np.float32]] = []
    threads = settings.workers or max(1, cores() // place.processes)
    try:
        with closing(encode_groups(encoder, groups(), pictures, threads)) as encoded:
            for (video, rows), features in encoded:
                held.append(features)
                shots += len(rows)
                if rows[-1] + 1 == bounds[video][1]:
                    parts.keep(video, np.concatenate(held))
                    held, whole = [], whole + 1
                tell(EncodeProgress(shots, total, whole, len(videos)))
    except BasslError as error:
        return error
    return None


def _pictures(reader: KeyframeReader, rows: NDArray[np.int64], encoder: ShotEncoder) -> list[list[NDArray[np.uint8]]]:
    """The prepared key-frames of shots of one video."""
    import numpy as np

    images = np.tile(np.arange(reader.index.keyframes), (len(rows), 1))
    return [
        [encoder.prepare(reader.decoded(row, jpeg)) for jpeg in jpegs]
        for row, jpegs in zip(rows.tolist(), reader.read(rows, images), strict=True)
    ]


class _Parts(Mapping[str, "NDArray[np.floating]"]):
    """What is there of a store: the store itself, and beside it, in a folder, a small store for each video since.

    As a mapping, the features of each video of the store that is to be, read when they are asked for.
    """

    def __init__(self, store: Path, encoder: str, index: Index) -> None:
        from pipelines.stores.features import shot_checksums

        self.store, self.encoder, self.index = store, encoder, index
        self.folder = store.with_name(f".{store.name}.parts")
        self.shots = shot_checksums(index)
        """Of each video a checksum of what is to be encoded."""
        self._whole: FeatureStore | None = None

    def begin(self, overwrite: bool) -> list[int]:
        """Remove what cannot be used, and say which videos are to be encoded.

        Raises:
            BasslError: where the folder cannot be written, or the store is of other shots.
        """
        from pipelines.files import check_writable, remove_partials

        check_writable(self.store)
        remove_partials(self.store)
        if overwrite:
            self.store.unlink(missing_ok=True)
        self._open_whole()
        missing = []
        for video, name in enumerate(self.index.video_ids):
            part = self._part(name)
            remove_partials(part)
            if overwrite or not self._fits(part, name):
                part.unlink(missing_ok=True)
            if not part.exists() and (self._whole is None or name not in self._whole.videos):
                missing.append(video)
        if not missing and any(self._part(name).exists() for name in self.shots):  # it was stopped just before
            self.join()
        self._tidy()
        return missing

    def keep(self, video: int, features: NDArray[np.float32]) -> None:
        """Keep the features of a video, so that they need not be made again."""
        from pipelines.stores.features import write_features

        name = self.index.video_ids[video]
        write_features(self._part(name), self.encoder, {name: features}, {name: self.shots[name]})

    def join(self) -> None:
        """Make one store of all there is, the videos of other indices in the same folder included."""
        from pipelines.stores.features import write_features

        self._open_whole()
        before = self._whole.shots if self._whole else {}
        write_features(self.store, self.encoder, self, {**before, **self.shots})
        for name in self.index.video_ids:
            self._part(name).unlink(missing_ok=True)
        self._tidy()

    def __getitem__(self, name: str) -> NDArray[np.floating]:
        from pipelines.stores.features import read_features

        if self._whole is not None and name in self._whole.videos:
            return self._whole.videos[name]
        return read_features(self._part(name))[1][name]

    def __iter__(self) -> Iterator[str]:
        return iter({*self.shots, *(self._whole.videos if self._whole else ())})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _part(self, name: str) -> Path:
        # Ids come from files of any kind; some hold characters or have a length that another file's name may not.
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.h5"

    def _open_whole(self) -> None:
        from pipelines.stores.features import open_features

        self._whole = open_features(self.store) if self.store.exists() else None
        if self._whole is None:
            return
        remedy = "delete it, and it is made again"
        if self._whole.encoder != self.encoder or self._whole.videos.keys() != self._whole.shots.keys():
            raise StoreError(f"{self.store}: is a store of {self._whole.encoder} that was not made here; {remedy}")
        for name, expected in self.shots.items():
            if self._whole.shots.get(name, expected) != expected:
                raise StoreError(
                    f"{self.store}: its features of {name} are of other shots or key-frames than {self.index.path} "
                    f"has; {remedy}, or name another folder"
                )

    def _fits(self, part: Path, name: str) -> bool:
        """Whether a part is whole and of the shots in the index."""
        from pipelines.stores.features import open_features

        try:
            found = open_features(part)
        except StoreError:  # none there; or a disk that was full, a power cut
            return False
        return found.encoder == self.encoder and dict(found.shots) == {name: self.shots[name]}

    def _tidy(self) -> None:
        with suppress(OSError):  # another index's run may have parts there
            self.folder.rmdir()


def main(arguments: Sequence[str] | None = None) -> int:
    """Encode with settings from the command line, ``--name value`` each; under torchrun, one process of the job."""
    from pipelines.options import parse

    try:
        settings = parse(EncodeSettings, "python -m pipelines.stages.encode", arguments)

        def tell(state: EncodeProgress) -> None:
            if state.shots == state.total:
                sys.stderr.write(f"{state.shots} shots of {state.total_videos} videos\n")

        sys.stdout.write(f"{encode_shots(settings, tell)}\n")
    except (BasslError, ValueError) as error:
        sys.stderr.write(f"encode_shots: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
