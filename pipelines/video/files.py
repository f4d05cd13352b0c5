"""Which files are films, and what each is called in stores: its video id."""

from __future__ import annotations

import glob
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import VideoError

# What a folder is searched for. A file that is named itself is tried whatever its ending.
VIDEO_ENDINGS = frozenset(
    """.3g2 .3gp .asf .avi .divx .dv .f4v .flv .gif .h264 .h265 .hevc .ivf .m1v .m2ts .m2v .m4v .mjpeg .mjpg .mkv .mov
    .mp4 .mpe .mpeg .mpg .mts .mxf .nut .ogm .ogv .qt .rm .rmvb .ts .vob .webm .wmv .y4m""".split()  # noqa: SIM905
)
_LONGEST_ID = 120


def find_films(inputs: Sequence[Path | str]) -> list[Path]:
    """The films among files, folders (searched through, hidden files left out) and glob patterns; each once, sorted.

    Raises:
        VideoError: for an input that is not there, a pattern that fits nothing, or a folder without films.
    """
    found: dict[Path, Path] = {}
    for given in map(Path, inputs):
        if given.is_dir():
            films = [
                path
                for path in given.rglob("*")
                if path.suffix.lower() in VIDEO_ENDINGS
                and path.is_file()
                and not any(part.startswith(".") for part in path.relative_to(given).parts)
            ]
            if not films:
                raise VideoError(f"{given}: holds no films")
        elif given.exists():
            films = [given]
        else:
            # Patterns may be absolute, which Path.glob refuses.
            films = [Path(name) for name in glob.glob(str(given), recursive=True) if Path(name).is_file()]  # noqa: PTH207
            if not films:
                raise VideoError(f"{given}: no such file")
        for film in films:
            found.setdefault(film.resolve(), film)
    return sorted(found.values())


def video_ids(films: Sequence[Path]) -> list[str]:
    """An id for each film: its file name without ending, made safe, after the names of its folders where two clash.

    Safe means letters, digits, ``.``, ``_`` and ``-`` only, no leading dot, at most 120 characters. Ids that differ
    only in case count as clashing, because their files would on some systems.
    """
    parts = [(*film.resolve().parts[1:-1], film.stem) for film in films]
    depth = [1] * len(films)
    while True:
        ids = [_safe("_".join(p[-d:])) for p, d in zip(parts, depth, strict=True)]
        count = Counter(name.casefold() for name in ids)
        clashing = [i for i, name in enumerate(ids) if count[name.casefold()] > 1]
        growing = [i for i in clashing if depth[i] < len(parts[i])]
        if not growing:
            break
        for i in growing:
            depth[i] += 1
    seen: Counter[str] = Counter()
    for i in clashing:  # files of one folder that differ in their ending only
        ending = _safe(films[i].suffix.lstrip(".")) if films[i].suffix else "film"
        ids[i] = f"{ids[i]}_{ending}"
        seen[ids[i].casefold()] += 1
        if seen[ids[i].casefold()] > 1:
            ids[i] = f"{ids[i]}_{seen[ids[i].casefold()]}"
    return ids


def _safe(name: str) -> str:
    composed = unicodedata.normalize("NFC", name)
    return re.sub(r"[^\w.-]+", "_", composed).lstrip(".")[-_LONGEST_ID:].strip("_") or "film"
