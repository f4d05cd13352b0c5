"""Settings of reproducing a table of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pipelines.options import accept_text, check_at_least

NAMES = ("table1", "table2", "table3", "table4", "nmi", "bbc-ovsd")
"""The tables: comparison with other algorithms, pre-training by network, pretext tasks, ablations, cluster quality,
other data sets."""


@dataclass(frozen=True)
class ReproduceSettings:
    """Which table, on which data."""

    table: str = "table1"
    """One of table1, table2, table3, table4, nmi, bbc-ovsd."""
    data: Path | None = None
    """MovieNet's folder, a folder of labelled features, or of videos with their labels beside them. Default:
    data/movienet if it exists, else generated videos."""
    rows: tuple[str, ...] = ()
    """Rows to run, by name or pattern, separated by commas. Default: all."""
    gpus: int | None = None
    """GPUs for pre-training and fine-tuning; 0 is the CPU. Default: one GPU, if there is one."""
    epochs: int | None = None
    """Epochs of pre-training where the paper has ten; rows with another number are scaled in proportion."""
    seeds: int = 5
    """Fine-tuning runs for each number (section 4.1)."""
    output: Path = Path("runs/reproduce")
    """Folder of the tables and of all files that they are computed from."""
    overwrite: bool = False
    """Run finished steps again."""

    def __post_init__(self) -> None:
        accept_text(self)
        if self.table not in NAMES:
            raise ValueError(f"there is no table {self.table!r}; there are {', '.join(NAMES)}")
        check_at_least(self, 1, "seeds", "epochs")
        check_at_least(self, 0, "gpus")


@dataclass(frozen=True)
class StageOptions:
    """Options of the stages on one kind of data, where they differ from the paper's."""

    pretrain: Mapping[str, Any] = field(default_factory=dict)  # of `bassl pretrain`
    # further ones for a row that has more than 20 of the paper's epochs
    long_pretrain: Mapping[str, Any] = field(default_factory=dict)
    finetune: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of `bassl finetune`, by `--crn`
    # further ones for a network that is trained from scratch, by `--crn`
    network: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    baselines: Mapping[str, str] = field(default_factory=dict)  # by system, the one that replaces it
    preparation: Literal["centre", "squeeze"] = "squeeze"  # of keyframes for the encoder with ImageNet weights
    epochs: int = 10  # of pre-training where the paper has ten; a row with another number is scaled in proportion
