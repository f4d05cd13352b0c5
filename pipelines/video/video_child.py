"""The child side of :class:`pipelines.video.video_process.VideoProcess`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from pipelines.processes import Send
from pipelines.video.reader import VideoReader
from pipelines.video.shots import ReaderSettings


def send_video(task: tuple[Path, ReaderSettings], send: Send) -> None:
    """Read a video; send each shot as it is found, the progress, and its facts and warnings at the end."""
    reader = VideoReader(*task, lambda done, total: send("progress", (done, total)))
    for shot in reader:
        # Images as raw bytes: the parent receives them before it has imported NumPy.
        shape = (len(shot.keyframes), *shot.keyframes[0].shape)
        images = [np.ascontiguousarray(image).data for image in shot.keyframes]
        send("shot", (replace(shot, keyframes=()), shape), images)
    send("end", (reader.facts, reader.warnings))
