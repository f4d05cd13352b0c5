"""Names of scenes by a program of the user's, which may ask any model."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from pipelines.errors import count, first_line
from pipelines.outputs.names import one_line
from pipelines.scenes import SceneData

S = TypeVar("S", bound=SceneData)

_MOST_SECONDS = 120  # for one scene
_LONGEST = 200  # characters of a name, as on the page


def described(scenes: S, images: Sequence[bytes], command: str) -> S:
    """The scenes, each without a name by people or a program named by the first line that a program prints for it.

    The program is run without a shell, once for each scene, with JSON on stdin: ``image`` (path of a sheet with its
    keyframes), ``text``, ``index``, ``start``, ``end`` and ``video``. A scene for which it prints nothing, fails, or
    takes more than two minutes keeps its name; one warning tells of failures. ``images``: one per shot, as for
    :func:`pipelines.outputs.storyboard.save_storyboard`."""
    from pipelines.outputs.storyboard import save_storyboard  # start-up time: Pillow

    named, failures = [], []
    with TemporaryDirectory() as folder:
        sheet = Path(folder) / "keyframes.png"
        for scene in scenes.scenes:
            if scene.lacks_name:
                save_storyboard(sheet, replace(scenes, scenes=(scene,)), images)
                facts: dict[str, Any] = {
                    "image": str(sheet),
                    "text": " ".join(line.text for line in scenes.lines_of(scene)),
                    "index": scene.index,
                    "start": scene.start,
                    "end": scene.end,
                    "video": scenes.video.path,
                }
                try:
                    program = subprocess.run(
                        shlex.split(command, posix=os.name == "posix"),
                        input=json.dumps(facts).encode(),
                        stdout=subprocess.PIPE,
                        timeout=_MOST_SECONDS,
                        check=True,
                    )
                except (OSError, subprocess.SubprocessError) as error:
                    failures.append(f"scene {scene.index + 1}: {first_line(error)}")
                else:
                    printed = program.stdout.decode("utf-8", "replace").strip().splitlines()
                    if printed and (name := one_line(printed[0])[:_LONGEST]):
                        scene = replace(scene, name=name, named_by="program")
            named.append(scene)
    told = scenes.warnings
    if failures:
        told += (f"{command}: failed for {count(len(failures), 'scene')}, which keep their names ({failures[0]})",)
    return replace(scenes, scenes=tuple(named), warnings=told)
