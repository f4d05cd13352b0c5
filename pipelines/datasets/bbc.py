"""BBC Planet Earth (Baraldi, Grana and Cucchiara, "A Deep Siamese Network for Scene Detection in Broadcast Videos", ACM
MM 2015), in its authors' files:

    annotations/shots/bbc_01.txt                    `0 632`: first and last frame of each shot, inclusive
    annotations/scenes/annotator_0/bbc_01.txt       `0,1,8,...,445`: the first shot of each scene, then the number of
                                                    shots
"""

from itertools import pairwise
from pathlib import Path

from pipelines.datasets.annotations import VideoAnnotation, by_id, labels_from_ends, read_inclusive_ranges
from pipelines.datasets.parsing import fault, listed_files, parse_int, read_text
from pipelines.files import real

FRAME_RATE = 25.0  # frames per second of the series as broadcast; the files do not have it


def is_bbc(root: Path) -> bool:
    """Whether the folder contains `annotations/shots` and `annotations/scenes/annotator_*`, or is that folder."""
    folder = _annotations(root)
    return (folder / "shots").is_dir() and any(child.is_dir() for child in folder.glob("scenes/annotator_*"))


def read_bbc(root: Path, annotator: int = 0) -> list[VideoAnnotation]:
    """Read all videos with the scenes of one annotator (0 to 4 in the full set).

    A video's id is its file name without `.txt`. Frame rate: `FRAME_RATE`. Raises DatasetError: a folder or file is
    missing or damaged, a scene begins after the last shot, or a list of scenes does not run from shot 0 to the number
    of shots, because it or the shot list is truncated.
    """
    folder = _annotations(root)
    scene_folder = folder / "scenes" / f"annotator_{annotator}"
    shot_files, scene_files = listed_files(folder / "shots", ".txt"), listed_files(scene_folder, ".txt")
    if not shot_files:
        raise fault(folder / "shots", "has no shot lists (*.txt); name the folder of BBC's annotations")
    if not scene_files:
        raise fault(scene_folder, "has no lists of scenes (*.txt)")
    for here, there in ((shot_files, scene_files), (scene_files, shot_files)):
        if alone := sorted({*here} - {*there}):
            other_folder = scene_folder if there is scene_files else folder / "shots"
            raise fault(here[alone[0]], f"has no file of the same name in {other_folder}")
    return by_id(_video(video_id, shot_files[video_id], scene_files[video_id]) for video_id in shot_files)


def read_bbc_file(scene_file: Path) -> VideoAnnotation:
    """Read one video from its list of scenes in the data set's folders. Raises DatasetError: the list, or the shot list
    that belongs to it, is missing or damaged, as for `read_bbc`."""
    folder = real(scene_file).parent.parent.parent
    return _video(scene_file.stem, folder / "shots" / scene_file.name, scene_file)


def is_bbc_file(path: Path) -> bool:
    """Whether a file is at the path of a list of scenes of the data set."""
    return path.suffix == ".txt" and real(path).parent.name.startswith("annotator_")


def _video(video_id: str, shot_file: Path, scene_file: Path) -> VideoAnnotation:
    shots = read_inclusive_ranges(shot_file, "shot")
    fields = read_text(scene_file).strip().split(",")
    firsts = [parse_int(field.strip(), "the number of a shot", scene_file) for field in fields]
    if firsts[0] != 0:
        raise fault(scene_file, f"begins with shot {firsts[0]}, not with shot 0")
    for before, first in pairwise(firsts):
        if first <= before:
            raise fault(scene_file, f"has shot {first} after shot {before}")
    if firsts[-1] != len(shots):
        raise fault(scene_file, f"ends with {firsts[-1]}, but {shot_file} has {len(shots)} shots; one is cut off")
    scene_end = labels_from_ends((first - 1 for first in firsts[1:]), len(shots))
    return VideoAnnotation(video_id, scene_file, shots, scene_end=scene_end, frame_rate=FRAME_RATE)


def _annotations(root: Path) -> Path:
    return root / "annotations" if (root / "annotations").is_dir() else root
