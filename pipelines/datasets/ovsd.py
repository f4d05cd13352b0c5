"""Open Video Scene Detection (Rotman, Porat and Ashour, "Robust and Efficient Video Scene Detection Using Optimal
Sequential Grouping", ISM 2016), in one folder:

    02_scenes.txt       `0 3169`: first and last frame of each scene, counted from zero, inclusive
    02_shots.txt        `0 414`: the same for each shot
"""

import math
from pathlib import Path

from pipelines.datasets.annotations import VideoAnnotation, by_id, labels_from_ends, read_inclusive_ranges
from pipelines.datasets.matching import assign_scene_ends
from pipelines.datasets.parsing import fault, listed_files

MAX_DIFFERENCE = 48
"""Maximum difference in frames, about two seconds, between the starts and ends of all scenes and of all shots."""

_SCENES = "_scenes.txt"
_SHOTS = "_shots.txt"


def is_ovsd(root: Path) -> bool:
    """Whether the folder contains a file `<id>_scenes.txt`."""
    return root.is_dir() and any(root.glob(f"[!.]*{_SCENES}"))


def read_ovsd(root: Path) -> list[VideoAnnotation]:
    """Read all videos of a folder, with scenes as frame ranges and, if there is a shot list, labeled shots.

    Scenes were annotated by eye: most ends differ from the nearest shot end, often by some frames and sometimes by many
    seconds, and there may be gaps between scenes. A scene ends with the shot with the nearest end, one shot per scene.
    A video's id is the name before `_scenes.txt`. The files do not have the frame rate. Raises DatasetError: a file is
    missing or damaged, a shot list has no scenes, there are more scenes than shots, or scenes and shots do not begin
    and end together, because one of the files is truncated.
    """
    scene_files, shot_files = listed_files(root, _SCENES), listed_files(root, _SHOTS)
    if not scene_files:
        raise fault(root, f"has no files *{_SCENES}; name the folder of OVSD's annotations")
    if alone := sorted({*shot_files} - {*scene_files}):
        raise fault(shot_files[alone[0]], f"has no {alone[0]}{_SCENES} beside it")
    return by_id(_video(video_id, path, shot_files.get(video_id)) for video_id, path in scene_files.items())


def read_ovsd_file(scene_file: Path) -> VideoAnnotation:
    """Read one video from its list of scenes, and its list of shots if it is beside it. Raises DatasetError: a file is
    missing or damaged, as for `read_ovsd`."""
    video_id = scene_file.name.removesuffix(_SCENES)
    shot_file = scene_file.with_name(f"{video_id}{_SHOTS}")
    return _video(video_id, scene_file, shot_file if shot_file.exists() else None)


def is_ovsd_file(path: Path) -> bool:
    """Whether a file is named `<id>_scenes.txt`."""
    return path.name.endswith(_SCENES)


def _video(video_id: str, scene_file: Path, shot_file: Path | None) -> VideoAnnotation:
    scenes = read_inclusive_ranges(scene_file, "scene")
    if shot_file is None:
        return VideoAnnotation(video_id, scene_file, scenes_frames=scenes)
    shots = read_inclusive_ranges(shot_file, "shot")
    for does, frame, other in (("begins", scenes[0, 0], shots[0, 0]), ("ends", scenes[-1, 1], shots[-1, 1])):
        if abs(int(frame) - int(other)) > MAX_DIFFERENCE:
            raise fault(scene_file, f"{does} at frame {frame}, but {shot_file} at {other}; one of them is cut off")
    if len(scenes) > len(shots):
        raise fault(scene_file, f"has {len(scenes)} scenes, but {shot_file} only {len(shots)} shots")
    last_shots = assign_scene_ends(shots[:, 1], scenes[:, 1], tolerance=math.inf)
    scene_end = labels_from_ends(last_shots.tolist(), len(shots))
    return VideoAnnotation(video_id, scene_file, shots, scene_end=scene_end, scenes_frames=scenes)
