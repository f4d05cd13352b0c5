"""The rows of the tables as plain data: which system, how it is trained, and which metrics are reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pipelines.models.networks import CRN

AP = "ap"
_FOUR = {"AP": "ap", "mIoU": "miou", "AUC-ROC": "auc", "F1": "f1"}
_FIVE = {**_FOUR, "Sum": "sum"}


@dataclass(frozen=True)
class Pretraining:
    """A run of `bassl pretrain`."""

    name: str  # of its folder
    # as on the command line, beyond those of the data (`data.OPTIONS`)
    options: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = 10  # the paper's

    @property
    def shots_only(self) -> bool:
        """Whether it trains the shot encoder alone, so that there is nothing to do on features."""
        return self.options.get("method", "bassl").startswith("simclr") or self.options.get("tasks") == ("ssm",)


@dataclass(frozen=True)
class SystemSpec:
    """One system."""

    name: str  # of its folder
    baseline: str | None = None  # of `bassl baseline`; all else is then empty
    # where nothing is pre-trained here: whose weights the shot encoder has
    encoder: Literal["ImageNet", "Places365"] | None = None
    pretraining: Pretraining | None = None  # what comes before fine-tuning
    crn: CRN = "transformer"  # network that is fine-tuned
    transfer: Literal["encoder", "encoder+crn"] | None = None  # what of pre-training is kept
    finetune: bool = True  # False for a pre-trained model that is scored as it is, by its head for pseudo-boundaries


@dataclass(frozen=True)
class Cell:
    """A number of a row: a metric of a system, in percent."""

    system: SystemSpec
    metric: str


@dataclass(frozen=True)
class RowSpec:
    """A row of a table."""

    label: str  # as in `pipelines.evaluation.paper_tables`, or a system of ours that the paper does not have
    cells: Mapping[str, Cell]  # by the paper's column, or a further one
    note: str = ""  # what to know of how it is run here


BASSL = Pretraining("bassl-10")
BASSL_40 = Pretraining("bassl-40", epochs=40)
INSTANCE = Pretraining("simclr-instance", {"method": "simclr-instance"})
TEMPORAL = Pretraining("simclr-temporal", {"method": "simclr-temporal"})
NEAREST = Pretraining("simclr-nn", {"method": "simclr-nn"})
BOTH = Pretraining("bassl-simclr-nn", {"method": "bassl+simclr-nn"})


def _from_pretraining(pretraining: Pretraining) -> SystemSpec:
    """Pre-trained and fine-tuned with all that transfers: encoder and CRN, or the encoder where there is no more."""
    transfer: Literal["encoder", "encoder+crn"] = "encoder" if pretraining.shots_only else "encoder+crn"
    return SystemSpec(f"{pretraining.name}-transformer", pretraining=pretraining, transfer=transfer)


def _encoder_only(pretraining: Pretraining, crn: CRN) -> SystemSpec:
    return SystemSpec(f"{pretraining.name}-encoder-{crn}", pretraining=pretraining, crn=crn, transfer="encoder")


def _image_encoder(encoder: Literal["ImageNet", "Places365"], crn: CRN) -> SystemSpec:
    return SystemSpec(f"{encoder.lower()}-{crn}", encoder=encoder, crn=crn)


def _row(label: str, system: SystemSpec, metrics: Mapping[str, str], note: str = "") -> RowSpec:
    return RowSpec(label, {column: Cell(system, metric) for column, metric in metrics.items()}, note)


def _baseline(label: str, name: str, note: str = "") -> RowSpec:
    return _row(label, SystemSpec(name, baseline=name), _FOUR, note)


def _encoders_row(label: str, of: Pretraining | Literal["ImageNet", "Places365"]) -> RowSpec:
    networks: dict[str, CRN] = {"MLP": "mlp", "MS-LSTM": "ms-lstm", "Transformer": "transformer"}
    systems = {
        column: _encoder_only(of, crn) if isinstance(of, Pretraining) else _image_encoder(of, crn)
        for column, crn in networks.items()
    }
    return RowSpec(label, {column: Cell(system, AP) for column, system in systems.items()})


def _tasks(tasks: str) -> Pretraining:
    words = tuple(tasks.split())
    return BASSL if len(words) == 4 else Pretraining(f"bassl-{'-'.join(words)}", {"tasks": words})


def _ablation(label: str, pretraining: Pretraining) -> RowSpec:
    return _row(label, _from_pretraining(pretraining), {"AP": AP})


_RELATIONAL = _image_encoder("ImageNet", "relational")
_COMBINATIONS = (
    "ssm, cgm, pp, msm, ssm cgm, ssm pp, cgm pp, ssm msm, cgm msm, pp msm, "
    "cgm pp msm, ssm pp msm, ssm cgm msm, ssm cgm pp, ssm cgm pp msm"
)
"""Pretext tasks of the rows P1 to P15."""
_NEW_CRN = "; the CRN is new, and fine-tuned at its rate, ten times that of a transferred one (paper's scale: 1e-4)"
_ON_OTHER_SETS = {
    "SimCLR (instance)": _encoder_only(INSTANCE, "transformer"),
    "SimCLR (temporal)": _encoder_only(TEMPORAL, "transformer"),
    "SimCLR (NN)": _encoder_only(NEAREST, "transformer"),
    "BaSSL": _from_pretraining(BASSL),
    "no pre-training": _image_encoder("ImageNet", "transformer"),
    "Relational network": _RELATIONAL,
}
_NMI = {"Short (8)": "nmi_8", "Medium (16)": "nmi_16", "Long (32)": "nmi_32", "short to long": "nmi_change"}
_NMI_TASKS = {"SSM": "ssm", "SSM+MSM": "ssm msm", "SSM+MSM+CGM": "ssm cgm msm", "SSM+MSM+CGM+PP": "ssm cgm pp msm"}

ACROSS = "table7"
"""The table whose rows are the sets that are tested on."""

ROWS: Mapping[str, tuple[RowSpec, ...]] = {
    "table1": (
        _baseline("Siamese", "siamese"),
        _row("MS-LSTM", _image_encoder("ImageNet", "ms-lstm"), _FOUR, "picture only"),
        _baseline("LGSS", "lgss", "picture, and sound where there is some"),
        _baseline("GraphCut", "graph-cut"),
        _baseline("SCSA", "scsa"),
        _baseline("DP", "dp"),
        _baseline("Story Graph", "story-graph"),
        _baseline("Grouping", "grouping", "picture, and sound where there is some"),
        _row(
            "BaSSL w/o fine-tuning (10 epochs)",
            SystemSpec("bassl-10-head", pretraining=BASSL, finetune=False),
            _FOUR,
            "the head for pseudo-boundaries, one pre-training",
        ),
        _row("ShotCoL", _encoder_only(NEAREST, "mlp"), _FOUR, "SimCLR (NN) and an MLP"),
        _row("BaSSL (10 epochs)", _from_pretraining(BASSL), _FOUR),
        _row("BaSSL (40 epochs)", _from_pretraining(BASSL_40), _FOUR),
        _row(
            "Relational network",
            _RELATIONAL,
            _FOUR,
            "not in the paper: the kind of network of the built-in model, trained here",
        ),
    ),
    "table2": (
        _encoders_row("M1 ImageNet", "ImageNet"),
        _encoders_row("M2 Places365", "Places365"),
        _encoders_row("M3 SimCLR (instance)", INSTANCE),
        _encoders_row("M4 SimCLR (temporal)", TEMPORAL),
        _encoders_row("M5 SimCLR (NN)", NEAREST),
        _encoders_row("M6 BaSSL", BASSL),
        _row("M7 BaSSL", _from_pretraining(BASSL), {"Transformer": AP}),
        _row("M8 M5+M7", _from_pretraining(BOTH), {"Transformer": AP}),
    ),
    "table3": tuple(
        _row(f"P{number}", _from_pretraining(_tasks(tasks)), _FIVE, tasks.upper() + _NEW_CRN * (tasks == "ssm"))
        for number, tasks in enumerate(_COMBINATIONS.split(", "), start=1)
    ),
    "table4a": (
        *(
            _ablation(name.capitalize(), Pretraining(f"bassl-{name}", {"pseudo_boundary": name}))
            for name in ("random", "fixed", "synthesized")
        ),
        _ablation("DTW (ours)", BASSL),
    ),
    "table4b": tuple(_ablation(str(k), Pretraining(f"bassl-k{k}", {"neighbours": k})) for k in (4, 8, 12, 16)),
    "table4c": tuple(
        _ablation(str(n), {10: BASSL, 40: BASSL_40}.get(n) or Pretraining(f"bassl-{n}", epochs=n))
        for n in (10, 20, 30, 40, 50)
    ),
    ACROSS: tuple(
        RowSpec(name, {column: Cell(system, AP) for column, system in _ON_OTHER_SETS.items()})
        for name in ("BBC", "OVSD")
    ),
    "table8": (
        _row("ImageNet", _image_encoder("ImageNet", "transformer"), _NMI),
        _row("SimCLR (temporal)", _encoder_only(TEMPORAL, "transformer"), _NMI),
        _row("SimCLR (NN)", _encoder_only(NEAREST, "transformer"), _NMI),
        _row("BaSSL (ours)", _from_pretraining(BASSL), _NMI),
    ),
    "table9": tuple(
        _row(label, _from_pretraining(_tasks(tasks)), {"NMI": "nmi_16"}, "scenes of 16 shots")
        for label, tasks in _NMI_TASKS.items()
    ),
}
"""By the paper's table."""

TABLES: Mapping[str, tuple[str, ...]] = {
    "table1": ("table1",),
    "table2": ("table2",),
    "table3": ("table3",),
    "table4": ("table4a", "table4b", "table4c"),
    "nmi": ("table8", "table9"),
    "bbc-ovsd": (ACROSS,),
}
"""What can be asked for, and the tables of the paper that it is."""
