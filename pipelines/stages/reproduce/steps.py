"""A step of a reproduction: one command with its options, and the steps that it depends on."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TRAINING = ("pretrain", "finetune")
_MODULES = {"make-video": "pipelines.datasets.synthetic"}
"""Steps that have no command of bassl."""


@dataclass(frozen=True)
class Step:
    """One command."""

    command: str  # `bassl COMMAND`, but for those in `_MODULES`
    options: Mapping[str, Any] = field(default_factory=dict)  # by the names of the fields of its settings
    subjects: tuple[str, ...] = ()  # arguments before the options
    output: Path | None = None  # file or folder that it writes; None for one that only measures
    needs: tuple[Step, ...] = ()  # steps that must be done first
    source: str = ""  # digest of data that it reads and that no step has written

    @property
    def identity(self) -> str:
        """Digest of everything that determines the result; the machine and the number of GPUs are not part of it."""
        parts = [self.command, self.subjects, self.options, [one.identity for one in self.needs], self.source]
        return hashlib.sha256(json.dumps(parts, default=str, sort_keys=True).encode()).hexdigest()[:20]

    def line(self, gpus: int | None = None) -> str:
        """The command line."""
        module = _MODULES.get(self.command)
        words = [*(("python", "-m", module) if module else ("bassl", self.command)), *self.subjects]
        for name, value in self.options.items():
            words.append(f"--{name.replace('_', '-')}")
            if isinstance(value, list):
                words += map(str, value)
            elif value is not True:
                words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
        if gpus is not None and self.command in _TRAINING:
            words += ["--gpus", str(gpus)]
        return shlex.join(words)


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Steps and all that they need, each once, dependencies first."""
    found: dict[str, Step] = {}

    def add(step: Step) -> None:
        for one in step.needs:
            add(one)
        found.setdefault(step.identity, step)

    for step in steps:
        add(step)
    return list(found.values())
