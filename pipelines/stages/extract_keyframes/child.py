"""The child process of a film: decodes it, cuts it into shots and writes its keyframe store."""

from __future__ import annotations

from itertools import chain
from typing import Any

from pipelines.processes import Send
from pipelines.stages.extract_keyframes.task import FilmTask
from pipelines.video.shots import ReaderSettings


def work(message: dict[str, Any], send: Send) -> None:
    """Read the film of a task, write its store; runs in the child process."""
    from pipelines.video.reader import FilmReader  # start-up time: av, which the parent process does without

    task = FilmTask.from_json(message)
    settings = task.settings
    reader = FilmReader(
        task.film,
        ReaderSettings(settings.detector, None, settings.keyframes, settings.lines, task.threads),
        lambda done, total: send("progress", {"done": done, "total": total, "frames": reader.frames_read}),
    )
    shots = iter(reader)
    shots = chain([next(shots)], shots)  # starts the threads that decode
    from pipelines.stages.extract_keyframes import writing  # start-up time: h5py and PIL, while the threads decode

    try:
        writing.write_store(task, reader, shots)
    except writing.InexactError:
        send("inexact", {})
    else:
        facts = reader.facts
        found = {"shots": reader.shots, "frames": facts.frames, "duration": facts.duration}
        send("end", found | {"warnings": reader.warnings})
