"""What an index holds, and what it lacks."""

from __future__ import annotations

import numpy as np

from pipelines.stages.build_index.settings import SplitStatistics
from pipelines.stores.index import NO_LABEL, Index


def missing(index: Index) -> list[str]:
    """Lines about what an index lacks: keyframes, labels, splits, times, or files that are not where it says."""
    spans = [index.span(video) for video in range(len(index.video_ids))]
    lacking = {
        "no keyframes": [v for v, place in enumerate(index.pictures) if place is None],
        "keyframes that are not there any more": [
            v for v, place in enumerate(index.pictures) if place is not None and not place.exists()
        ],
        "no labels": [v for v, span in enumerate(spans) if np.all(index.label[span] == NO_LABEL)],
        "no split": [v for v, split in enumerate(index.splits) if not split],
        "no times in seconds": [v for v, span in enumerate(spans) if np.isnan(index.seconds[span.start, 0])],
    }
    notes = []
    for what, videos in lacking.items():
        if videos:
            names = ", ".join(index.video_ids[v] for v in videos[:3]) + (", ..." if len(videos) > 3 else "")
            notes.append(f"{len(videos)} of {len(index.video_ids)} videos have {what}: {names}")
    notes += [
        f"features {name} are not there any more: {path}" for name, path in index.features.items() if not path.exists()
    ]
    return notes


def statistics(index: Index) -> list[SplitStatistics]:
    """What each split holds, in the order train, val, test, others; then all together where there are several."""
    order = {"train": 0, "val": 1, "test": 2}
    splits: list[str | None] = [*sorted(set(index.splits), key=lambda name: (order.get(name, 3), name))]
    if len(splits) > 1:
        splits.append(None)
    return [_statistics(index, split) for split in splits]


def _statistics(index: Index, split: str | None) -> SplitStatistics:
    videos = [v for v, name in enumerate(index.splits) if split in (name, None)]
    spans = [index.span(v) for v in videos]
    labelled = [span for span in spans if np.any(index.label[span] != NO_LABEL)]
    ends = sum(int(index.targets(np.arange(span.start, span.stop)).sum()) for span in labelled)
    seconds = sum(float(index.seconds[span.stop - 1, 1]) for span in spans)
    return SplitStatistics(
        split="all" if split is None else split or "none",
        videos=len(videos),
        labelled=len(labelled),
        scenes=ends + len(labelled),  # the last scene of a video ends with the film, without a label
        shots=sum(int(span.stop - span.start) for span in spans),
        hours=None if np.isnan(seconds) else seconds / 3600,
    )
