"""Shot detectors on public corpora, scored as PySceneDetect's own benchmark does, beside its published figures.

    python benchmarks/shot_corpora.py FOLDER [--corpus BBC AutoShot ClipShots] [--detectors transitions adaptive ...]

FOLDER is laid out as PySceneDetect's ``benchmark/``, whose README says where the data are:

    BBC/videos/bbc_NN.mp4      BBC/fixed/NN-*.txt             one line per shot: first and last frame, counted from 0
    AutoShot/videos/ID.mp4     AutoShot/annotations/ID.txt    as BBC
    ClipShots/videos/*.mp4     ClipShots/annotations/test.json    {"NAME.mp4": {"transitions": [[from, to], ...]}}

Each video gives one list of frames, the ends of its detected shots (the end of the video is one of them, as in the
annotations of BBC and AutoShot). A frame within a gradual transition of ClipShots counts for that transition, the first
as found and the others as false; every other frame is matched to at most one annotated cut, nearest first, within
``--tolerance`` frames (0: the same frame). Counts are summed over the videos of a corpus.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measure import command_line, save

from pipelines.errors import BasslError
from pipelines.settings import DETECTOR_NAMES
from pipelines.video.reader import VideoReader
from pipelines.video.shots import ReaderSettings

# Recall, precision and F1 at tolerance 0, from the README of PySceneDetect's benchmark, read in November 2026.
PUBLISHED = {
    ("BBC", "cuts"): {
        "adaptive": (87.12, 96.55, 91.59),
        "content": (84.70, 88.77, 86.69),
        "hash": (92.30, 75.56, 83.10),
        "histogram": (89.84, 72.03, 79.96),
        "threshold": (0.06, 0.70, 0.11),
    },
    ("AutoShot", "cuts"): {
        "adaptive": (70.59, 77.46, 73.86),
        "content": (63.49, 76.19, 69.26),
        "hash": (56.48, 76.11, 64.84),
        "histogram": (63.27, 53.23, 57.82),
        "threshold": (0.75, 38.64, 1.47),
    },
    ("ClipShots", "cuts"): {
        "adaptive": (85.97, 41.25, 55.75),
        "content": (81.93, 42.36, 55.84),
        "hash": (81.34, 30.14, 43.98),
        "histogram": (72.20, 11.47, 19.80),
        "threshold": (0.08, 0.58, 0.14),
    },
    ("ClipShots", "gradual"): {
        "adaptive": (13.65, 98.12, 23.96),
        "content": (26.03, 98.04, 41.14),
        "hash": (18.77, 94.53, 31.33),
        "histogram": (69.67, 81.99, 75.33),
        "threshold": (5.69, 99.24, 10.77),
    },
}


@dataclass
class AnnotatedVideo:
    """The true boundaries of a video, as frames counted from 0: the first frames of new shots, and the ranges
    (inclusive) in which a detected boundary belongs to a gradual transition."""

    path: Path
    cuts: list[int] = field(default_factory=list)
    gradual: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Counts:
    """Boundaries of one kind: true ones that were found, false alarms, and true ones that were missed."""

    found: int = 0
    false: int = 0
    missed: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.found + other.found, self.false + other.false, self.missed + other.missed)

    def percent(self) -> tuple[float, float, float]:
        """Return recall, precision and F1 in percent; 0 if undefined."""
        recall, precision = (
            100 * self.found / total if total else 0.0 for total in (self.found + self.missed, self.found + self.false)
        )
        return recall, precision, 2 * recall * precision / (recall + precision) if self.found else 0.0


# --- corpora ----------------------------------------------------------------------------------------------------------


def read_corpus(folder: Path) -> list[AnnotatedVideo]:
    """Return the videos of a corpus that are there and have annotations. Raises SystemExit if there are none."""
    videos = {path.stem.removeprefix("bbc_"): path for path in sorted((folder / "videos").glob("*.mp4"))}
    if (folder / "annotations" / "test.json").is_file():
        annotated = list(_clipshots(folder, videos))
    else:
        files = sorted([*folder.glob("fixed/*.txt"), *folder.glob("annotations/*.txt")])
        named = [(file.stem.split("-")[0] if file.parent.name == "fixed" else file.stem, file) for file in files]
        annotated = [AnnotatedVideo(videos[name], _last_column(file)) for name, file in named if name in videos]
    if not annotated:
        sys.exit(f"{folder}: no videos with annotations; see `--help` for the layout")
    print(f"{folder.name}: {len(annotated)} of {len(videos)} videos have annotations", file=sys.stderr)
    return annotated


def _last_column(file: Path) -> list[int]:
    """Return the frame after the last one of each shot; lines may have spaces or tabs."""
    return [int(line.split()[1]) + 1 for line in file.read_text().splitlines() if line.strip()]


def _clipshots(folder: Path, videos: dict[str, Path]) -> Iterator[AnnotatedVideo]:
    """Read the test split. A transition from one frame to the next is a cut, a longer one is gradual."""
    for name, entry in json.loads((folder / "annotations" / "test.json").read_text()).items():
        if Path(name).stem in videos:
            video = AnnotatedVideo(videos[Path(name).stem])
            for first, last in entry["transitions"]:
                if last - first <= 1:
                    video.cuts.append(last)
                else:
                    video.gradual.append((first + 1, last + 1))
            yield video


# --- detections -------------------------------------------------------------------------------------------------------


def shot_ends(video: Path, detector: str) -> list[int]:
    """Return the frame after the last one of each detected shot."""
    return [shot.end_frame for shot in VideoReader(video, ReaderSettings(detector=detector))]


def count_boundaries(frames: Sequence[int], video: AnnotatedVideo, tolerance: int) -> tuple[Counts, Counts]:
    """Return the counts of cuts and of gradual transitions for detected frames of a video."""
    rest, gradual = [], Counts()
    reached: set[tuple[int, int]] = set()
    for frame in frames:
        transition = next((span for span in video.gradual if span[0] <= frame <= span[1]), None)
        if transition is None:
            rest.append(frame)
        elif transition in reached:
            gradual.false += 1
        else:
            reached.add(transition)
    gradual.found, gradual.missed = len(reached), len(video.gradual) - len(reached)
    pairs = sorted(
        (abs(frame - cut), i, j)
        for i, frame in enumerate(rest)
        for j, cut in enumerate(video.cuts)
        if abs(frame - cut) <= tolerance
    )
    matched_frames: set[int] = set()
    matched_cuts: set[int] = set()
    for _, i, j in pairs:
        if i not in matched_frames and j not in matched_cuts:
            matched_frames.add(i)
            matched_cuts.add(j)
    found = len(matched_cuts)
    return Counts(found, len(rest) - found, len(video.cuts) - found), gradual


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--corpus", nargs="+", default=["BBC", "AutoShot", "ClipShots"], help="folders in FOLDER")
    parser.add_argument("--detectors", nargs="+", default=["transitions", "adaptive"], choices=DETECTOR_NAMES)
    parser.add_argument("--tolerance", type=int, default=0, help="frames")
    arguments = parser.parse_args()
    results = {}
    for corpus in arguments.corpus:
        if not (arguments.folder / corpus).is_dir():
            print(f"{arguments.folder / corpus}: not there, left out", file=sys.stderr)
            continue
        videos, unreadable = read_corpus(arguments.folder / corpus), 0
        for detector in arguments.detectors:
            cuts, gradual, seconds, unreadable = Counts(), Counts(), 0.0, 0
            for video in videos:
                start = time.perf_counter()
                try:
                    frames = shot_ends(video.path, detector)
                except BasslError as error:
                    print(error, file=sys.stderr)
                    unreadable += 1
                    continue
                seconds += time.perf_counter() - start
                counts = count_boundaries(frames, video, arguments.tolerance)
                cuts, gradual = cuts + counts[0], gradual + counts[1]
            kinds = {"cuts": cuts} | ({"gradual": gradual} if any(video.gradual for video in videos) else {})
            results[f"{corpus} {detector}"] = {kind: counts.percent() for kind, counts in kinds.items()} | {
                "seconds per video": seconds / max(1, len(videos) - unreadable),
                "videos": len(videos) - unreadable,
                "tolerance": arguments.tolerance,
            }
        for kind in ("cuts", "gradual"):
            rows = {d: r[kind] for d in arguments.detectors if kind in (r := results[f"{corpus} {d}"])}
            if rows:
                print(f"\n{corpus}, {kind}, {len(videos) - unreadable} videos, tolerance {arguments.tolerance} frames")
                print(f"{'':30}{'recall':>8}{'precision':>11}{'F1':>8}")
                published = PUBLISHED.get((corpus, kind), {})
                for name, figures in [*rows.items(), *((f"{d}, published", f) for d, f in published.items())]:
                    print(f"{name:30}{figures[0]:8.2f}{figures[1]:11.2f}{figures[2]:8.2f}")
    if not results:
        sys.exit(f"{arguments.folder}: has none of {', '.join(arguments.corpus)}")
    save("shot_corpora", results)


if __name__ == "__main__":
    main()
