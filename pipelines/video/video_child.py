"""What the process of a :class:`pipelines.video.video_process.VideoProcess` runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.processes import Send
from pipelines.video.reader import VideoReader
from pipelines.video.shots import ReaderSettings


def send_video(task: dict[str, Any], send: Send) -> None:
    """Read a video and send each shot as it is found, how far it has been read, and at the end its facts."""
    settings = task["settings"]
    settings["shots"] = settings["shots"] and Path(settings["shots"])
    reader = VideoReader(
        Path(task["path"]),
        ReaderSettings(**settings),
        lambda done, total: send("progress", {"done": done, "total": total}),
    )
    for shot in reader:
        head = {key: getattr(shot, key) for key in ("index", "start_frame", "end_frame", "start", "end")}
        head["keyframe_indices"] = shot.keyframe_indices
        head["transition"] = shot.transition and asdict(shot.transition)
        head["shape"] = (len(shot.keyframes), *shot.keyframes[0].shape)
        send("shot", head, [np.ascontiguousarray(image).data for image in shot.keyframes])
    send("end", {"facts": asdict(reader.facts), "warnings": reader.warnings})
