"""The rows of the tables as plain data: which system, how it is trained, and which metrics are reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pipelines.models.networks.kinds import CRN

_AP = {"AP": "ap"}
_FOUR = {**_AP, "mIoU": "miou", "AUC-ROC": "auc", "F1": "f1"}
_FIVE = {**_FOUR, "Sum": "sum"}
_NMI = {"Short (8)": "nmi_8", "Medium (16)": "nmi_16", "Long (32)": "nmi_32", "short to long": "nmi_change"}


@dataclass(frozen=True)
class Pretraining:
    """A run of `bassl pretrain`."""

    name: str  # of its folder, without the digest
    options: Mapping[str, Any] = field(default_factory=dict)  # beyond the options for the data (`data.OPTIONS`)
    epochs: int = 10  # the paper's

    @property
    def shots_only(self) -> bool:
        """Whether it trains the shot encoder alone."""
        return self.options.get("method", "bassl").startswith("simclr") or self.options.get("tasks") == ("ssm",)


@dataclass(frozen=True)
class SystemSpec:
    """One system: a baseline, or a network that is fine-tuned on an encoder."""

    baseline: str | None = None  # of `bassl baseline`; the other fields then mean nothing
    encoder: Pretraining | Literal["ImageNet", "Places365"] = "ImageNet"  # where its weights come from
    crn: CRN = "transformer"  # network that is fine-tuned
    transfers_crn: bool = False  # whether it starts with the pre-trained CRN, not only with the encoder
    finetuned: bool = True  # False for a pre-trained model that is scored as it is, by its head for pseudo-boundaries

    @property
    def pretraining(self) -> Pretraining | None:
        return self.encoder if isinstance(self.encoder, Pretraining) else None

    @property
    def name(self) -> str:
        """Name of the folder of its fine-tuning run, without the digest."""
        encoder = self.encoder.lower() if isinstance(self.encoder, str) else self.encoder.name
        return f"{encoder}-{self.crn}" if self.transfers_crn else f"{encoder}-encoder-{self.crn}"


@dataclass(frozen=True)
class RowSpec:
    """A row of a table."""

    label: str  # as in `pipelines.evaluation.paper_tables`, or a system of ours that the paper does not have
    cells: Mapping[str, tuple[SystemSpec, str]]  # by column, the paper's or ours: a system and its metric
    note: str = ""  # what a reader should know about how it is run here


BASSL = Pretraining("bassl-10")
BASSL_40 = Pretraining("bassl-40", epochs=40)
INSTANCE = Pretraining("simclr-instance", {"method": "simclr-instance"})
TEMPORAL = Pretraining("simclr-temporal", {"method": "simclr-temporal"})
NEAREST = Pretraining("simclr-nn", {"method": "simclr-nn"})
BOTH = Pretraining("bassl-simclr-nn", {"method": "bassl+simclr-nn"})

_RELATIONAL = SystemSpec(crn="relational")
_NETWORKS: Mapping[str, CRN] = {"MLP": "mlp", "MS-LSTM": "ms-lstm", "Transformer": "transformer"}


def _pretrained(pretraining: Pretraining) -> SystemSpec:
    """Fine-tuned from all that was pre-trained: the encoder, and the CRN if there is one."""
    return SystemSpec(encoder=pretraining, transfers_crn=not pretraining.shots_only)


def _row(label: str, system: SystemSpec, metrics: Mapping[str, str], note: str = "") -> RowSpec:
    return RowSpec(label, {column: (system, metric) for column, metric in metrics.items()}, note)


def _ap_row(label: str, systems: Mapping[str, SystemSpec]) -> RowSpec:
    return RowSpec(label, {column: (system, "ap") for column, system in systems.items()})


def _encoder_row(label: str, encoder: Pretraining | Literal["ImageNet", "Places365"]) -> RowSpec:
    return _ap_row(label, {column: SystemSpec(encoder=encoder, crn=crn) for column, crn in _NETWORKS.items()})


def _tasks(tasks: str) -> Pretraining:
    words = tuple(tasks.split())
    return BASSL if len(words) == 4 else Pretraining(f"bassl-{'-'.join(words)}", {"tasks": words})


_COMBINATIONS = (
    "ssm, cgm, pp, msm, ssm cgm, ssm pp, cgm pp, ssm msm, cgm msm, pp msm, "
    "cgm pp msm, ssm pp msm, ssm cgm msm, ssm cgm pp, ssm cgm pp msm"
)
"""Pretext tasks of the rows P1 to P15."""
_NEW_CRN = "; the CRN is new, and fine-tuned at its rate, ten times the rate of a transferred one (paper's scale: 1e-4)"
_SOUND = "keyframes, and sound if there is any"
_ON_OTHER_SETS = {
    "SimCLR (instance)": SystemSpec(encoder=INSTANCE),
    "SimCLR (temporal)": SystemSpec(encoder=TEMPORAL),
    "SimCLR (NN)": SystemSpec(encoder=NEAREST),
    "BaSSL": _pretrained(BASSL),
    "no pre-training": SystemSpec(),
    "Relational network": _RELATIONAL,
}
_NMI_TASKS = {"SSM": "ssm", "SSM+MSM": "ssm msm", "SSM+MSM+CGM": "ssm cgm msm", "SSM+MSM+CGM+PP": "ssm cgm pp msm"}
_RELATIONAL_NOTE = "not in the paper: the kind of network of the built-in model, trained here"

ACROSS = "table7"
"""The table whose rows are the sets that are tested on."""

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
        _row(
            "BaSSL w/o fine-tuning (10 epochs)",
            SystemSpec(encoder=BASSL, finetuned=False),
            _FOUR,
            "the head for pseudo-boundaries, one pre-training",
        ),
        _row("ShotCoL", SystemSpec(encoder=NEAREST, crn="mlp"), _FOUR, "SimCLR (NN) and an MLP"),
        _row("BaSSL (10 epochs)", _pretrained(BASSL), _FOUR),
        _row("BaSSL (40 epochs)", _pretrained(BASSL_40), _FOUR),
        _row("Relational network", _RELATIONAL, _FOUR, _RELATIONAL_NOTE),
    ),
    "table2": (
        _encoder_row("M1 ImageNet", "ImageNet"),
        _encoder_row("M2 Places365", "Places365"),
        _encoder_row("M3 SimCLR (instance)", INSTANCE),
        _encoder_row("M4 SimCLR (temporal)", TEMPORAL),
        _encoder_row("M5 SimCLR (NN)", NEAREST),
        _encoder_row("M6 BaSSL", BASSL),
        _ap_row("M7 BaSSL", {"Transformer": _pretrained(BASSL)}),
        _ap_row("M8 M5+M7", {"Transformer": _pretrained(BOTH)}),
    ),
    "table3": tuple(
        _row(f"P{number}", _pretrained(_tasks(tasks)), _FIVE, tasks.upper() + _NEW_CRN * (tasks == "ssm"))
        for number, tasks in enumerate(_COMBINATIONS.split(", "), start=1)
    ),
    "table4a": (
        *(
            _row(kind.capitalize(), _pretrained(Pretraining(f"bassl-{kind}", {"pseudo_boundary": kind})), _AP)
            for kind in ("random", "fixed", "synthesized")
        ),
        _row("DTW (ours)", _pretrained(BASSL), _AP),
    ),
    "table4b": tuple(
        _row(str(k), _pretrained(Pretraining(f"bassl-k{k}", {"neighbours": k})), _AP) for k in (4, 8, 12, 16)
    ),
    "table4c": tuple(
        _row(str(epochs), _pretrained(Pretraining(f"bassl-{epochs}", epochs=epochs)), _AP)
        for epochs in (10, 20, 30, 40, 50)
    ),
    ACROSS: (_ap_row("BBC", _ON_OTHER_SETS), _ap_row("OVSD", _ON_OTHER_SETS)),
    "table8": (
        _row("ImageNet", SystemSpec(), _NMI),
        _row("SimCLR (temporal)", SystemSpec(encoder=TEMPORAL), _NMI),
        _row("SimCLR (NN)", SystemSpec(encoder=NEAREST), _NMI),
        _row("BaSSL (ours)", _pretrained(BASSL), _NMI),
    ),
    "table9": tuple(
        _row(label, _pretrained(_tasks(tasks)), {"NMI": "nmi_16"}, "scenes of 16 shots")
        for label, tasks in _NMI_TASKS.items()
    ),
}
"""By the paper's table."""
