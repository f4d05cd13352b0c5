"""The paper's tables, measured: every system on one data set, with the paper's numbers beside the measured ones.

The rows of a table are plain data. A row becomes command lines (:mod:`.planning`). Each runs as a process, and its
numbers are kept in a file, from which a table is computed (:mod:`.measuring`), so an interrupted one continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from annotated_doc import Doc

from pipelines.errors import check_installed
from pipelines.models.networks import CRN
from pipelines.options import Settings, check_at_least, nested, resolve_settings
from pipelines.progress import ReportProgress, no_progress
from pipelines.settings import check_names_file
from pipelines.training import Machines

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import ReproduceOptions

TABLES: Mapping[str, tuple[str, ...]] = {
    "table1": ("table1",),  # comparison with other algorithms
    "table2": ("table2",),  # pre-training, by network
    "table3": ("table3",),  # pretext tasks
    "table4": ("table4a", "table4b", "table4c"),  # ablations
    "nmi": ("table8", "table9"),  # quality of clusters
    "bbc-ovsd": ("table7",),  # other data sets
}
"""By name, the tables of the paper that it contains."""


@dataclass(frozen=True)
class ReproduceSettings(Settings):
    """Which table, on which data."""

    table: Annotated[str, Doc("One of table1, table2, table3, table4, nmi, bbc-ovsd.")] = "table1"
    data: Annotated[
        Path | None,
        Doc("""MovieNet's folder, a folder of labeled features, or of videos with their labels beside them.
        Default: data/movienet if it exists, else generated videos."""),
    ] = None
    rows: Annotated[tuple[str, ...], Doc("Rows to run, by name or pattern, separated by commas. Default: all.")] = ()
    machines: Machines = nested(Machines())
    epochs: Annotated[int | None, Doc("Pre-training epochs where the paper has ten; others scale with them.")] = None
    seeds: Annotated[int, Doc("Fine-tuning runs for each number (section 4.1).")] = 5
    output: Annotated[Path, Doc("Folder of the tables and their files.")] = Path("runs/reproduce")
    overwrite: Annotated[bool, Doc("Run finished commands again.")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_names_file(self.output)
        if self.table not in TABLES:
            raise ValueError(f"unknown table {self.table!r}; choose from {', '.join(TABLES)}")
        check_at_least(self, 1, "seeds", "epochs")


@dataclass(frozen=True)
class Measured:
    """A metric from 0 to 1 for each seed, or the reason why there is none."""

    values: tuple[float, ...] = ()
    absent: str = ""


@dataclass(frozen=True)
class RowResult:
    """A row of a table."""

    label: str  # in `pipelines.evaluation.paper_tables`
    cells: Mapping[str, Measured] = field(default_factory=dict)  # by column; empty for a row without numbers
    run: str = ""  # its commands in short: encoder, network, epochs and seeds
    note: str = ""  # how it differs from the paper's row
    error: str = ""  # why it failed


@dataclass(frozen=True)
class TableResult:
    """A table of the paper, for one way to train and test."""

    name: str  # in `pipelines.evaluation.paper_tables`
    protocol: str  # the way, in words; empty if there is only one
    columns: tuple[str, ...]  # the paper's columns, then ours
    rows: tuple[RowResult, ...]


@dataclass(frozen=True)
class ReproduceResult:
    """The measured tables."""

    tables: tuple[TableResult, ...]
    data: str  # the data that they were measured on, in words
    comparable: bool  # whether the paper's numbers were measured on the same data
    settings: ReproduceSettings
    failed: tuple[str, ...]  # a line for each row that failed
    stopped: bool = False  # whether a signal ended the run; another run continues
    files: tuple[Path, ...] = ()  # files that were written


def reproduce(
    settings: ReproduceSettings | None = None,
    progress: ReportProgress | None = None,
    **options: Unpack[ReproduceOptions],
) -> ReproduceResult:
    """Measure a table of the paper. In the output folder, ``<table>/<data>/`` gets ``table.md``, ``table.tex``,
    ``table.json`` and ``commands.sh``; what the commands write and print goes to ``work/<data>/``, for all tables. A
    row that failed is named in the result and does not stop the others. Raises BasslError for unusable data, unknown
    rows, several machines, or MovieNet without a GPU."""
    settings = resolve_settings(ReproduceSettings, settings, options)
    check_installed("torch", "reproduce")
    from pipelines.stages.reproduce.measuring import measure_tables  # start-up time: PyAV, SciPy

    return measure_tables(settings, progress or no_progress)


def plan(settings: ReproduceSettings | None = None) -> str:
    """Return the shell lines that measure a table, and run nothing. Raises BasslError as `reproduce`."""
    from pipelines.stages.reproduce.planning import find_data, planned_rows, script  # start-up time: PyAV, SciPy

    settings = resolve_settings(ReproduceSettings, settings, {})
    return script(planned_rows(settings, find_data(settings)))


ACROSS = "table7"  # the table whose rows are the sets that are tested on
_COMBINATIONS = (
    *("ssm", "cgm", "pp", "msm"),
    *("ssm cgm", "ssm pp", "cgm pp", "ssm msm", "cgm msm", "pp msm"),
    *("cgm pp msm", "ssm pp msm", "ssm cgm msm", "ssm cgm pp"),
    "ssm cgm pp msm",
)
"""Pretext tasks of the rows P1 to P15."""

PRETRAINING: Mapping[str, Mapping[str, Any]] = {
    **{f"bassl-{epochs}": {"epochs": epochs} for epochs in (10, 20, 30, 40, 50)},
    **{f"simclr-{kind}": {"method": f"simclr-{kind}"} for kind in ("instance", "temporal", "nn")},
    "bassl-simclr-nn": {"method": "bassl+simclr-nn"},
    **{f"bassl-{tasks.replace(' ', '-')}": {"tasks": tuple(tasks.split())} for tasks in _COMBINATIONS[:-1]},
    **{f"bassl-{kind}": {"pseudo_boundary": kind} for kind in ("random", "fixed", "synthesized")},
    **{f"bassl-k{k}": {"neighbors": k} for k in (4, 8, 12, 16)},
}
"""Runs of `bassl pretrain`: by name, the options beyond those for the data. Epochs are the paper's; default: 10."""


@dataclass(frozen=True)
class SystemSpec:
    """One system: a baseline, or a network that is fine-tuned on an encoder."""

    baseline: str | None = None  # of `bassl baseline`; the other fields then mean nothing
    encoder: str = "ImageNet"  # where its weights come from: ImageNet, Places365, or a run in `PRETRAINING`
    crn: CRN = "transformer"  # network that is fine-tuned
    transfers_crn: bool = False  # whether it starts with the pre-trained CRN, not only with the encoder
    finetuned: bool = True  # False: a pre-trained model is scored as it is, by its head for pseudo-boundaries


@dataclass(frozen=True)
class RowSpec:
    """A row of a table."""

    label: str  # as in `pipelines.evaluation.paper_tables`, or a system of ours that the paper does not have
    cells: Mapping[str, tuple[SystemSpec, str]]  # by column, the paper's or ours: a system and its metric
    note: str = ""  # what a reader should know about how it is run here


def trains_shots_only(run: str) -> bool:
    """Return whether a run of `PRETRAINING` trains the shot encoder alone."""
    options = PRETRAINING[run]
    return options.get("method", "bassl").startswith("simclr") or options.get("tasks") == ("ssm",)


def _pretrained(run: str) -> SystemSpec:
    """Return the system that is fine-tuned from all that was pre-trained: the encoder, and the CRN if there is one."""
    return SystemSpec(encoder=run, transfers_crn=not trains_shots_only(run))


def _row(label: str, system: SystemSpec, metrics: Mapping[str, str], note: str = "") -> RowSpec:
    return RowSpec(label, {column: (system, metric) for column, metric in metrics.items()}, note)


def _tasks(tasks: str) -> SystemSpec:
    return _pretrained("bassl-10" if tasks == _COMBINATIONS[-1] else f"bassl-{tasks.replace(' ', '-')}")


_AP = {"AP": "ap"}
_FOUR = {**_AP, "mIoU": "miou", "AUC-ROC": "auc", "F1": "f1"}
_NMI = {"Short (8)": "nmi_8", "Medium (16)": "nmi_16", "Long (32)": "nmi_32", "short to long": "nmi_change"}
_RELATIONAL = SystemSpec(crn="relational")
_CHANCE = "scores without information: AP is the share of scene ends"
_NOT_IN_PAPER = "not in the paper: the kind of network of the built-in model, trained here"
_NEW_CRN = "; the CRN is new, and fine-tuned at its rate, ten times the rate of a transferred one (paper's scale: 1e-4)"
_SOUND = "keyframes, and sound if there is any"
_HEAD = "the head for pseudo-boundaries, one pre-training"
_NETWORKS: Mapping[str, CRN] = {"MLP": "mlp", "MS-LSTM": "ms-lstm", "Transformer": "transformer"}
_SIMCLR = {"SimCLR (instance)": "simclr-instance", "SimCLR (temporal)": "simclr-temporal", "SimCLR (NN)": "simclr-nn"}
_ENCODERS = {"ImageNet": "ImageNet", "Places365": "Places365", **_SIMCLR, "BaSSL": "bassl-10"}
_ON_OTHER_SETS = {
    **{label: (SystemSpec(encoder=run), "ap") for label, run in _SIMCLR.items()},
    "BaSSL": (_pretrained("bassl-10"), "ap"),
    "no pre-training": (SystemSpec(), "ap"),
    "Relational network": (_RELATIONAL, "ap"),
    "Chance": (_RELATIONAL, "chance"),
}

ROWS: Mapping[str, tuple[RowSpec, ...]] = {
    "table1": (
        _row("Siamese", SystemSpec("siamese"), _FOUR),
        _row("MS-LSTM", SystemSpec(crn="ms-lstm"), _FOUR, "keyframes only"),
        _row("LGSS", SystemSpec("lgss"), _FOUR, _SOUND),
        _row("GraphCut", SystemSpec("graph-cut"), _FOUR),
        _row("SCSA", SystemSpec("scsa"), _FOUR),
        _row("DP", SystemSpec("dp"), _FOUR),
        _row("Story Graph", SystemSpec("story-graph"), _FOUR),
        _row("Grouping", SystemSpec("grouping"), _FOUR, _SOUND),
        _row("BaSSL w/o fine-tuning (10 epochs)", SystemSpec(encoder="bassl-10", finetuned=False), _FOUR, _HEAD),
        _row("ShotCoL", SystemSpec(encoder="simclr-nn", crn="mlp"), _FOUR, "SimCLR (NN) and an MLP"),
        _row("BaSSL (10 epochs)", _pretrained("bassl-10"), _FOUR),
        _row("BaSSL (40 epochs)", _pretrained("bassl-40"), _FOUR),
        _row("Relational network", _RELATIONAL, _FOUR, _NOT_IN_PAPER),
        _row("Chance", _RELATIONAL, {"AP": "chance"}, _CHANCE),
    ),
    "table2": (
        *(
            RowSpec(f"M{i} {label}", {name: (SystemSpec(None, encoder, crn), "ap") for name, crn in _NETWORKS.items()})
            for i, (label, encoder) in enumerate(_ENCODERS.items(), start=1)
        ),
        _row("M7 BaSSL", _pretrained("bassl-10"), {"Transformer": "ap"}),
        _row("M8 M5+M7", _pretrained("bassl-simclr-nn"), {"Transformer": "ap"}),
        _row("Chance", SystemSpec(), {"Transformer": "chance"}, _CHANCE),
    ),
    "table3": (
        *(
            _row(f"P{number}", _tasks(tasks), {**_FOUR, "Sum": "sum"}, tasks.upper() + _NEW_CRN * (tasks == "ssm"))
            for number, tasks in enumerate(_COMBINATIONS, start=1)
        ),
        _row("Chance", _pretrained("bassl-10"), {"AP": "chance"}, _CHANCE),
    ),
    "table4a": (
        *(_row(kind.capitalize(), _pretrained(f"bassl-{kind}"), _AP) for kind in ("random", "fixed", "synthesized")),
        _row("DTW (ours)", _pretrained("bassl-10"), _AP),
        _row("Chance", _pretrained("bassl-10"), {"AP": "chance"}, _CHANCE),
    ),
    "table4b": tuple(_row(str(k), _pretrained(f"bassl-k{k}"), _AP) for k in (4, 8, 12, 16)),
    "table4c": tuple(_row(str(epochs), _pretrained(f"bassl-{epochs}"), _AP) for epochs in (10, 20, 30, 40, 50)),
    ACROSS: (RowSpec("BBC", _ON_OTHER_SETS), RowSpec("OVSD", _ON_OTHER_SETS)),
    "table8": (
        _row("ImageNet", SystemSpec(), _NMI),
        _row("SimCLR (temporal)", SystemSpec(encoder="simclr-temporal"), _NMI),
        _row("SimCLR (NN)", SystemSpec(encoder="simclr-nn"), _NMI),
        _row("BaSSL (ours)", _pretrained("bassl-10"), _NMI),
    ),
    "table9": tuple(
        _row(label, _tasks(tasks), {"NMI": "nmi_16"}, "scenes of 16 shots")
        for label, tasks in {
            "SSM": "ssm",
            "SSM+MSM": "ssm msm",
            "SSM+MSM+CGM": "ssm cgm msm",
            "SSM+MSM+CGM+PP": "ssm cgm pp msm",
        }.items()
    ),
}
"""By the paper's table."""
