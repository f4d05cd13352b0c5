"""Finding video files, and the video id of each, used in all stores."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PureWindowsPath

from pipelines.errors import BasslWarning, VideoError, count
from pipelines.files import STDIO, VIDEO_ENDINGS, as_paths, is_file, os_errors, os_reason
from pipelines.scenes import VideoFacts

SUBTITLE_ENDINGS = (".srt", ".ass", ".ssa", ".vtt")
"""In the order in which files are preferred."""
# Text in formats that are not read: found, so that a line says so.
_UNREAD_ENDINGS = (".ttml", ".dfxp", ".smi", ".sub", ".scc")
# As in movie.en.srt, movie_english.srt, movie.pt-BR.srt or movie.en.sdh.srt.
_LANGUAGES = """arabic|bulgarian|chinese|croatian|czech|danish|dutch|english|finnish|french|german|greek|hebrew|hindi|
    hungarian|indonesian|italian|japanese|korean|norwegian|polish|portuguese|romanian|russian|serbian|slovak|spanish|
    swedish|thai|turkish|ukrainian|vietnamese"""
_SUBTITLES = re.compile(
    rf"""(?:[._\ -](?:[a-z]{{2,3}}(?:[-_][a-z0-9]{{2,8}})*|{_LANGUAGES}))??
    (?:[._\ -](?:default|(auto|cc|hi|sdh)|(commentary|forced)))*""",
    re.IGNORECASE | re.VERBOSE,
)
_CHAPTERS = re.compile(rb"(?:\xef\xbb\xbf)?WEBVTT[^\r\n]*\r?\nKind: *(?:chapters|metadata)\b", re.IGNORECASE)
# In bytes: temporary files beside a store have longer names, and file systems allow 255.
_LONGEST_ID = 120

_SOUND_ENDINGS = frozenset(".aac .ac3 .aif .aiff .flac .m4a .m4b .mka .mp3 .oga .ogg .opus .wav .wma".split())  # noqa: SIM905
# What storage systems keep in every folder: small copies of videos, and deleted ones.
_SYSTEM_FOLDERS = frozenset(
    ("$recycle.bin", "#recycle", "#snapshot", "@eadir", "@recycle", "@recently-snapshot", "@__thumb", "lost+found")
)


def find_videos(inputs: Path | str | Sequence[Path | str]) -> list[Path]:
    """Return the video files among files, folders and glob patterns; each once, sorted. Folders are searched
    recursively; hidden files are skipped, and with a BasslWarning what cannot be read and files of sound. Raise
    BasslError for an empty text, and VideoError for an input without videos."""
    videos: dict[Path, Path] = {}
    for path in as_paths(inputs):
        with os_errors(path, kind=VideoError):
            for video in _videos_of(path):
                videos.setdefault(video.resolve(), video)
    return sorted(videos.values())


def subtitles_beside(video: Path) -> Path | None:
    """Return the subtitle file of a video, or None: ``movie.srt``, else the first by name in a language, such as
    ``movie.en.srt``, else one for the hard of hearing, then forced subtitles and commentary, and last a file in a
    format that is not read. Neither chapters, nor the file of another video, as ``movie.bts.srt`` of
    ``movie.bts.mp4``."""
    stem, ranked = unicodedata.normalize("NFC", video.stem), []
    try:
        files = {file: unicodedata.normalize("NFC", file.stem) for file in video.parent.iterdir()}
    except OSError:  # a folder that cannot be listed
        files = {video.with_suffix(ending): stem for ending in SUBTITLE_ENDINGS}
    files = {file: name for file, name in files.items() if name.startswith(stem)}
    others = [name for file, name in files.items() if name != stem and file.suffix.lower() in VIDEO_ENDINGS]
    for file, name in files.items():
        ending, match = file.suffix.lower(), _SUBTITLES.fullmatch(name, len(stem))
        if not match or any(re.match(rf"{re.escape(other)}(?!\w)", name) for other in others):
            continue
        if ending in SUBTITLE_ENDINGS:
            rank = 0 if name == stem else 3 if match[2] else 2 if match[1] else 1
            ranked.append((rank, 0 if rank else SUBTITLE_ENDINGS.index(ending), file.name, file))
        elif ending in _UNREAD_ENDINGS:
            ranked.append((4, 0, file.name, file))
    return next((file for *_, file in sorted(ranked) if is_file(file) and not has_chapters(file)), None)


def has_chapters(file: Path) -> bool:
    """Return whether a WebVTT file has chapters, or thumbnails for the timeline of a player, as the exports have."""
    with suppress(OSError), file.open("rb") as content:  # whoever reads the file says why it cannot be read
        return _CHAPTERS.match(content.read(1000)) is not None
    return False


def _videos_of(path: Path) -> list[Path]:
    if path.is_dir():
        videos, sounds = [], []
        for file in files_below(path):
            if file.suffix.lower() in _SOUND_ENDINGS:
                sounds.append(file.name)
            elif file.suffix.lower() in VIDEO_ENDINGS:
                if file.is_file():
                    videos.append(file)
                elif file.is_symlink() and not file.exists():
                    _warn(file, "is a link to a missing file")
        if sounds:
            _warn(path, f"contains {count(len(sounds), 'sound file')}, such as {sounds[0]}")
        if not videos:
            raise VideoError(f"{path}: contains no videos")
        return videos
    if path == STDIO and not path.exists():
        raise VideoError("-: videos are read from files, not from stdin; name a file")
    if path.exists():
        return [path]
    if re.match("[a-z][a-z0-9+.-]+:/", str(path), re.IGNORECASE):  # one letter is a drive of Windows
        url = str(path).replace(":/", "://", 1)  # as typed: Path makes one slash of several
        raise VideoError(f"{url}: is a URL, but bassl reads files; download it first, for example with yt-dlp")
    videos = [file for file in _matches(path) if file.is_file()]
    if not videos:
        raise VideoError(f"{path}: no such file")
    return videos


def _matches(pattern: Path) -> list[Path]:
    parts = []
    for place in (*reversed(pattern.parents), pattern):
        is_literal = not re.search("[*?]", place.name) and place.exists()  # as in 'Show [x265]/*.mp4'
        parts.append(glob.escape(place.name) if is_literal else place.name)
    # Patterns may be absolute, which Path.glob refuses.
    return sorted(map(Path, glob.glob(os.path.join(pattern.anchor, *parts), recursive=True)))  # noqa: PTH118, PTH207


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder without hidden ones and those of storage systems. Each folder is searched once:
    links may be cyclic. A folder that cannot be read is skipped with a BasslWarning."""
    visited: set[Path] = set()

    def skip(error: OSError) -> None:
        if not isinstance(error, NotADirectoryError):  # a file has no files below it
            _warn(error.filename, f"cannot be read ({os_reason(error)})")

    for place, folders, names in os.walk(folder, onerror=skip, followlinks=True):
        real = Path(place).resolve()
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n.casefold() not in _SYSTEM_FOLDERS)
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))


def _warn(path: Path | str, reason: str) -> None:
    warnings.warn(f"{path}: {reason}; skipped", BasslWarning, stacklevel=2)


def video_ids(videos: Sequence[Path]) -> list[str]:
    """Return an id for each video: the `safe_id` of its file name. If ids are equal, up to case, folder names are
    prepended for videos in different folders, the suffix is appended for others, or else a number."""
    folders = [video.parent.resolve() for video in videos]
    parts = [(*folder.parts[1:], video.stem) for folder, video in zip(folders, videos, strict=True)]
    depth = [1] * len(videos)
    while True:
        ids = [safe_id("_".join(p[-d:])) for p, d in zip(parts, depth, strict=True)]
        # Folder names can only distinguish videos in different folders.
        places: dict[str, set[Path]] = {}
        for name, folder in zip(ids, folders, strict=True):
            places.setdefault(_key(name), set()).add(folder)
        growing = [i for i, name in enumerate(ids) if len(places[_key(name)]) > 1 and depth[i] < len(parts[i])]
        if not growing:
            break
        for i in growing:
            depth[i] += 1
    equal = Counter((folder, _key(name)) for folder, name in zip(folders, ids, strict=True))
    ids = [
        safe_id("_".join((*p[-d:-1], video.name))) if equal[folder, _key(name)] > 1 else name
        for name, folder, video, p, d in zip(ids, folders, videos, parts, depth, strict=True)
    ]
    natural, taken = set(map(_key, ids)), set[str]()
    for i, name in enumerate(ids):
        number = 1
        while _key(ids[i]) in taken or (number > 1 and _key(ids[i]) in natural):
            number += 1
            ids[i] = safe_id(f"{name}_{number}")
        taken.add(_key(ids[i]))
    return ids


@contextmanager
def unchanged(video: Path) -> Iterator[None]:
    """Guard a block that reads a video. Raise VideoError at its end, also instead of its own VideoError, if meanwhile
    another file was put at its path or the file was written to."""
    before = _state(video)
    try:
        yield
    except VideoError:
        if _state(video) == before:
            raise
    if _state(video) != before:
        raise VideoError(f"{video}: was changed while it was read; run again when it is complete")


def _state(video: Path) -> tuple[int, int, int, int] | None:
    """Return what identifies a file and its content; None if there is no such file."""
    with suppress(OSError, ValueError):
        status = video.stat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return None


def fingerprint(video: Path) -> str | None:
    """Return the fingerprint of a video file: the size, and SHA-256 of the size and of 16 parts of 64 KiB, evenly
    spread. What is not a file has None. Raise VideoError if the file cannot be read."""
    if not video.is_file():
        return None
    with os_errors(video, kind=VideoError), video.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(str(size).encode())
        for part in range(16):
            file.seek(max(0, size - 2**16) * part // 15)
            digest.update(file.read(2**16))
    return f"{size}-{digest.hexdigest()[:32]}"


def modified(video: Path) -> float | None:
    """Return when a video was last written, in seconds since 1970; None if there is no such file."""
    return os.path.getmtime(video) if is_file(video) else None  # noqa: PTH204


def video_at(path: Path, video: VideoFacts) -> Path | None:
    """Return the path if it is the video with these facts; None for a missing or another file."""
    return path if is_file(path) and video.fingerprint in (None, fingerprint(path)) else None


def safe_id(name: str) -> str:
    """Return a video id from a file name without suffix, or from a name in labels: letters, digits, ``.``, ``_`` and
    ``-`` only, no leading dot, at most 120 bytes. An id stays as it is."""
    safe = re.sub(r"[^\w.-]+", "_", unicodedata.normalize("NFC", name))
    end = safe.encode()[-_LONGEST_ID:].decode(errors="ignore")
    return end.lstrip("._-").rstrip("_") or "video"


def listed_id(facts: VideoFacts) -> str:
    """Return the id of the video of a ``scenes.json``, safe for file names; from the video's file name if absent."""
    return safe_id(facts.id or PureWindowsPath(facts.path).stem)


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())
