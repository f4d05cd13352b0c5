"""The shots of a result, read from their video again: their images for a page, and their encodings for an export."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pipelines
from pipelines.errors import BasslError, VideoError
from pipelines.files import cache_folder, keep_newest, write_atomically
from pipelines.processes import cores
from pipelines.scenes import SceneData
from pipelines.video.inputs import fingerprint, unchanged
from pipelines.video.shots import KeyframedShot, ReaderSettings, VideoProcess

if TYPE_CHECKING:  # start-up time
    import numpy as np
    from numpy.typing import NDArray

    from pipelines.outputs.images import ShotImages

Progress = Callable[[float, float | None], None]
CACHE_BYTES = 10**9
"""Of all images of shots in the user's folder for caches together; a film has about 20 MB."""


def images_from_video(scenes: SceneData, video: Path, progress: Progress) -> tuple[ShotImages, tuple[str, ...]]:
    """Read small images of each shot from the video; return them and the reader's warnings. ``progress`` is called with
    the seconds read and in all. Raises VideoError for another video."""
    from pipelines.outputs.images import ShotImages  # start-up time: Pillow

    warnings: list[str] = []
    images = ShotImages()
    for shot in read_shots(scenes, video, ReaderSettings(), progress, warnings):
        add_images(images, shot)
    return images, tuple(warnings)


def cached_images(scenes: SceneData, video: Path, progress: Progress) -> tuple[ShotImages, tuple[str, ...]]:
    """Return the images of `images_from_video`, from the user's folder for caches if they were read before."""
    from pipelines.outputs.images import ShotImages  # start-up time: Pillow

    folder = cache_folder("images")
    if folder is None:
        return images_from_video(scenes, video, progress)
    shots = [(shot.start_frame, shot.end_frame) for shot in scenes.shots]
    file = folder / sha256(repr((fingerprint(video), shots, pipelines.__version__)).encode()).hexdigest()
    with suppress(OSError, ValueError):  # it is not there, or damaged
        return ShotImages.from_bytes(file.read_bytes()), ()
    images, warnings = images_from_video(scenes, video, progress)
    with suppress(BasslError):
        write_atomically(file, images.to_bytes())
        keep_newest(folder, CACHE_BYTES)
    return images, warnings


def add_images(images: ShotImages, shot: KeyframedShot) -> None:
    """Add small images of a shot that was read from a video."""
    from PIL import Image  # start-up time

    images.add([Image.fromarray(keyframe) for keyframe in shot.keyframes], shot.end - shot.start)


def encodings_from_video(
    scenes: SceneData, video: Path, progress: Progress
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """Return each shot's encoding by the default encoder, (N, D_e), otherwise as `images_from_video`."""
    # Start-up time: OpenCV, ONNX Runtime.
    import numpy as np

    from pipelines.models.encoder_loading import load_encoder
    from pipelines.models.encoders.shot_encoder import encode_groups

    encoder = load_encoder()
    warnings: list[str] = []
    shots = read_shots(scenes, video, ReaderSettings(keyframes=encoder.keyframes), progress, warnings)
    groups = encoder.groups(shots)
    threads = 1 if encoder.on_gpu else max(1, cores() // 2)  # reading has the other half of the cores
    with closing(encode_groups(encoder, groups, lambda group: (s.keyframes for s in group), threads)) as encoded:
        features = [values for _, values, _ in encoded]
    return np.concatenate(features), tuple(warnings)


def read_shots(
    scenes: SceneData, video: Path, reader: ReaderSettings, progress: Progress, warnings: list[str]
) -> Iterator[KeyframedShot]:
    """Read the shots of scenes from their video again, with the reader's other settings; its warnings are added to
    ``warnings`` at the end. Raises VideoError for another video."""
    ranges = []
    end = None if scenes.settings.get("end") is None else scenes.shots[-1].end
    with TemporaryDirectory() as folder:
        file = Path(folder) / "scenes.json"  # the process that reads the video reads shots from a file
        scenes.save(file)
        reader = replace(reader, shots=file, start=scenes.shots[0].start or None, end=end)
        with unchanged(video), VideoProcess(video, reader, progress) as reading:
            for shot in reading:
                ranges.append((shot.start_frame, shot.end_frame))
                yield shot
    if ranges != [(shot.start_frame, shot.end_frame) for shot in scenes.shots]:
        facts = f"{reading.facts.frames} frames and other shots than these scenes with {scenes.video.frames} frames"
        raise VideoError(f"{video}: has {facts}; it is another video, or was changed")
    warnings += reading.warnings
