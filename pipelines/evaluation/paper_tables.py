"""The tables of the BaSSL paper, as data.

J. Mun, M. Shin, G. Han, S. Lee, S. Ha, J. Lee, E.-S. Kim: Boundary-aware Self-supervised Learning for Video Scene
Segmentation, arXiv 2201.05277. Numbers are in percent unless a column says otherwise; a deviation is over five
fine-tuning runs with different seeds (section 4.1). Cells that are empty or a dash in the paper are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A printed number."""

    mean: float  # the number
    deviation: float | None = None  # the number after the plus-minus sign, if there is one


@dataclass(frozen=True)
class PaperRow:
    """One row of a table."""

    numbers: Mapping[str, Number]  # by column
    group: str | None = None  # heading of its group of rows
    source: str | None = None  # citation of the method or the data set
    copied_from: str | None = None  # the paper from which the numbers were copied, marked with daggers in Table 1
    multimodal: bool = False  # whether the method also uses sound, place, cast or transcript (the star in Table 1)
    features: tuple[str, ...] = ()  # ticks and other text of the row

    def __getitem__(self, column: str) -> Number | None:
        """The number in a column; None if the paper has none."""
        return self.numbers.get(column)


@dataclass(frozen=True)
class PaperTable:
    """One table, or one of the three parts of Table 4."""

    title: str  # what it compares
    columns: tuple[str, ...]  # the columns of numbers, in the paper's order
    rows: Mapping[str, PaperRow]  # by label, in the paper's order
    data: str = "MovieNet-SSeg, test split"  # the test data

    def __getitem__(self, label: str) -> PaperRow:
        return self.rows[label]


@dataclass(frozen=True)
class _Columns:
    """Parses the printed cells of a row: `56.26 ±0.04`, `56.26` or `-`."""

    names: tuple[str, ...]
    group: str | None = None

    def row(
        self,
        cells: str,
        source: str | None = None,
        copied_from: str | None = None,
        multimodal: bool = False,
        features: tuple[str, ...] = (),
    ) -> PaperRow:
        printed = [cell.strip() for cell in cells.split("|")]
        numbers = {name: _number(cell) for name, cell in zip(self.names, printed, strict=True) if cell != "-"}
        return PaperRow(numbers, self.group, source, copied_from, multimodal, features)

    def rows(self, cells: Mapping[str, str]) -> dict[str, PaperRow]:
        """Rows of numbers alone, by label."""
        return {label: self.row(row) for label, row in cells.items()}


def _number(cell: str) -> Number:
    mean, _, deviation = cell.partition("±")
    return Number(float(mean), float(deviation) if deviation else None)


_METRICS = ("AP", "mIoU", "AUC-ROC", "F1")
_SUPERVISED = _Columns(_METRICS, "Supervised Learning")
_UNSUPERVISED = _Columns(_METRICS, "Unsupervised Learning")
_SELF_SUPERVISED = _Columns(_METRICS, "Self-supervised Learning")
_LGSS = "Rao et al. 2020"
_MOVIENET = "Huang et al. 2020"

TABLE_1 = PaperTable(
    "Comparison with other algorithms",
    _METRICS,
    {
        "Siamese": _SUPERVISED.row("35.80 | 39.60 | - | -", source="Baraldi et al. 2015", copied_from=_MOVIENET),
        "MS-LSTM": _SUPERVISED.row("46.50 | 46.20 | - | -", source=_MOVIENET, copied_from=_MOVIENET, multimodal=True),
        "LGSS": _SUPERVISED.row("47.10 | 48.80 | - | -", source=_LGSS, copied_from=_LGSS, multimodal=True),
        "GraphCut": _UNSUPERVISED.row("14.10 | 29.70 | - | -", source="Rasheed and Shah 2005", copied_from=_LGSS),
        "SCSA": _UNSUPERVISED.row("14.70 | 30.50 | - | -", source="Chasanis et al. 2009", copied_from=_LGSS),
        "DP": _UNSUPERVISED.row("15.50 | 32.00 | - | -", source="Han and Wu 2011", copied_from=_LGSS),
        "Story Graph": _UNSUPERVISED.row("25.10 | 35.70 | - | -", source="Tapaswi et al. 2014", copied_from=_LGSS),
        "Grouping": _UNSUPERVISED.row(
            "33.60 | 37.20 | - | -", source="Rotman et al. 2017", copied_from=_MOVIENET, multimodal=True
        ),
        "BaSSL w/o fine-tuning (10 epochs)": _UNSUPERVISED.row("31.55 | 39.36 | 71.67 | 32.55"),
        "ShotCoL": _SELF_SUPERVISED.row("53.40 | - | - | -", source="Chen et al. 2021"),
        "BaSSL (10 epochs)": _SELF_SUPERVISED.row("56.26 ±0.04 | 49.50 ±0.11 | 90.27 ±0.02 | 45.70 ±0.24"),
        "BaSSL (40 epochs)": _SELF_SUPERVISED.row("57.40 ±0.08 | 50.69 ±0.45 | 90.54 ±0.03 | 47.02 ±0.87"),
    },
)

_CRNS = ("MLP", "MS-LSTM", "Transformer")
_IMAGES = _Columns(_CRNS, "Supervised pre-training using image dataset")
_SHOTS = _Columns(_CRNS, "Shot-level pre-training")
_BOUNDARIES = _Columns(_CRNS, "Boundary-aware pre-training")
_ENCODER = ("pre-trained encoder", "transferred encoder")
_BOTH = ("pre-trained encoder", "pre-trained CRN", "transferred encoder", "transferred CRN")

TABLE_2 = PaperTable(
    "AP by pre-training and by architecture of the CRN during fine-tuning",
    _CRNS,
    {
        "M1 ImageNet": _IMAGES.row("43.12 ±0.14 | 45.10 ±0.55 | 47.13 ±1.04", features=_ENCODER),
        "M2 Places365": _IMAGES.row("43.82 ±0.10 | 45.87 ±0.40 | 48.71 ±0.50", features=_ENCODER),
        "M3 SimCLR (instance)": _SHOTS.row("45.60 ±0.07 | 49.09 ±0.24 | 51.51 ±0.31", features=_ENCODER),
        "M4 SimCLR (temporal)": _SHOTS.row("45.55 ±0.11 | 49.24 ±0.26 | 50.05 ±0.78", features=_ENCODER),
        "M5 SimCLR (NN)": _SHOTS.row("45.99 ±0.13 | 50.73 ±0.19 | 51.17 ±0.69", features=_ENCODER),
        "M6 BaSSL": _BOUNDARIES.row("46.53 ±0.11 | 50.58 ±0.14 | 50.82 ±0.69", features=_BOTH[:3]),
        "M7 BaSSL": _BOUNDARIES.row("- | - | 56.26 ±0.04", features=_BOTH),
        "M8 M5+M7": _BOUNDARIES.row("- | - | 56.86 ±0.01", features=_BOTH),
    },
)

_SUMMED = _Columns((*_METRICS, "Sum"))

TABLE_3 = PaperTable(
    "Combinations of pretext tasks",
    _SUMMED.names,
    {
        label: _SUMMED.row(cells, features=tuple(tasks.split()))
        for label, tasks, cells in (
            ("P1", "SSM", "42.57 ±0.29 | 40.12 ±0.50 | 84.11 ±0.15 | 30.83 ±0.79 | 197.63"),
            ("P2", "CGM", "36.76 ±0.02 | 40.59 ±0.18 | 82.06 ±0.04 | 30.94 ±0.32 | 190.35"),
            ("P3", "PP", "36.55 ±0.04 | 39.58 ±0.05 | 81.36 ±0.03 | 29.96 ±0.04 | 187.45"),
            ("P4", "MSM", "13.33 ±0.23 | 29.80 ±0.39 | 64.65 ±0.98 | 18.68 ±0.39 | 126.45"),
            ("P5", "SSM CGM", "55.77 ±0.05 | 48.19 ±0.21 | 90.19 ±0.03 | 43.17 ±0.39 | 237.32"),
            ("P6", "SSM PP", "56.04 ±0.08 | 49.00 ±0.16 | 90.13 ±0.02 | 44.74 ±0.29 | 239.91"),
            ("P7", "CGM PP", "38.09 ±0.03 | 41.25 ±0.10 | 82.85 ±0.01 | 32.24 ±0.24 | 195.43"),  # its own sum is 194.43
            ("P8", "SSM MSM", "54.39 ±0.07 | 47.54 ±0.18 | 89.72 ±0.03 | 42.48 ±0.22 | 234.13"),
            ("P9", "CGM MSM", "39.49 ±0.04 | 41.71 ±0.12 | 83.27 ±0.02 | 32.85 ±0.20 | 197.32"),
            ("P10", "PP MSM", "38.53 ±0.07 | 40.85 ±0.15 | 82.78 ±0.04 | 31.47 ±0.16 | 193.63"),
            ("P11", "CGM PP MSM", "41.02 ±0.07 | 40.89 ±0.10 | 83.79 ±0.02 | 31.53 ±0.18 | 197.23"),
            ("P12", "SSM PP MSM", "56.10 ±0.08 | 49.10 ±0.17 | 90.09 ±0.03 | 45.42 ±0.30 | 240.71"),
            ("P13", "SSM CGM MSM", "56.20 ±0.06 | 48.00 ±0.17 | 90.13 ±0.01 | 43.24 ±0.27 | 237.57"),
            ("P14", "SSM CGM PP", "56.26 ±0.02 | 48.42 ±0.33 | 90.25 ±0.01 | 43.98 ±0.58 | 238.91"),
            ("P15", "SSM CGM PP MSM", "56.26 ±0.04 | 49.50 ±0.11 | 90.27 ±0.02 | 45.70 ±0.24 | 241.73"),
        )
    },
)

_AP = _Columns(("AP",))

TABLE_4A = PaperTable(
    "Pseudo-boundary discovery",
    _AP.names,
    _AP.rows(
        {"Random": "46.64 ±0.37", "Fixed": "49.53 ±0.32", "Synthesized": "54.61 ±0.03", "DTW (ours)": "56.26 ±0.04"}
    ),
)

TABLE_4B = PaperTable(
    "Number of neighbour shots K",
    _AP.names,
    _AP.rows({"4": "55.98 ±0.10", "8": "56.26 ±0.04", "12": "56.29 ±0.03", "16": "55.31 ±0.04"}),
)

TABLE_4C = PaperTable(
    "Number of pre-training epochs",
    _AP.names,
    _AP.rows({"10": "56.26 ±0.04", "20": "56.74 ±0.04", "30": "56.74 ±0.07", "40": "57.40 ±0.08", "50": "57.15 ±0.08"}),
)


TABLE_5 = PaperTable(
    "Shot-level and boundary-aware pre-training, in words: the one, then the other",
    (),
    {
        "Network architecture": PaperRow({}, features=("f_ENC", "f_ENC + f_CRN")),
        "Training input": PaperRow({}, features=("a pair of shots (#shots: 2)", "a sequence of shots (#shots: 2K+1)")),
        "Weights transferable for f_ENC?": PaperRow({}, features=("yes", "yes")),
        "Weights transferable for f_CRN?": PaperRow({}, features=("no", "yes")),
        "Positive pair in contrastive learning": PaperRow({}, features=("shot-shot", "shot-scene")),
    },
    data="",
)

_COUNTS = _Columns(("videos", "scenes", "shots", "hours"))

TABLE_6 = PaperTable(
    "Data sets for video scene segmentation: counts, K being thousands (BBC has 4.9K shots)",
    _COUNTS.names,
    {
        "BBC": _COUNTS.row("11 | 670 | 4900 | 9", source="Baraldi et al. 2015", features=("Documentary",)),
        "OVSD": _COUNTS.row("21 | 300 | 10000 | 10", source="Rotman et al. 2016", features=("MiniFilm",)),
        "MovieNet-SSeg": _COUNTS.row("318 | 42000 | 500000 | -", source=_MOVIENET, features=("Movies",)),
        "MovieNet": _COUNTS.row("1100 | - | 1600000 | -", source=_MOVIENET, features=("Movies",)),
    },
    data="",
)

_PRE_TRAINED = _Columns(("SimCLR (instance)", "SimCLR (temporal)", "SimCLR (NN)", "BaSSL"))

TABLE_7 = PaperTable(
    "AP on other data sets, trained on MovieNet-SSeg and not fine-tuned on them",
    _PRE_TRAINED.names,
    {
        "BBC": _PRE_TRAINED.row("32.34 | 34.18 | 32.92 | 39.98", source="Baraldi et al. 2015"),
        "OVSD": _PRE_TRAINED.row("25.45 | 24.92 | 25.02 | 28.68", source="Rotman et al. 2016"),
    },
    data="BBC; OVSD without 2 of 21 videos that were not available",
)

_NMI = _Columns(("Short (8)", "Medium (16)", "Long (32)", "short to long"))

TABLE_8 = PaperTable(
    "Quality of scene clusters (NMI) by scene length in shots; the last column is the relative change",
    _NMI.names,
    {
        "ImageNet": _NMI.row("67.50 | 61.60 | 56.25 | -16.67"),
        "SimCLR (temporal)": _NMI.row("82.40 | 81.65 | 78.99 | -4.14"),
        "SimCLR (NN)": _NMI.row("83.54 | 83.17 | 81.25 | -2.75"),
        "BaSSL (ours)": _NMI.row("86.22 | 86.72 | 85.63 | -0.68"),
    },
    data="MovieNet-SSeg, 100 scenes of the test split, five trials",
)

_GAIN = _Columns(("NMI", "gain"))

TABLE_9 = PaperTable(
    "NMI by pretext tasks; the gain is relative to the row above",
    _GAIN.names,
    {
        "SSM": _GAIN.row("85.48 | 0.00", features=("SSM",)),
        "SSM+MSM": _GAIN.row("85.64 | 0.19", features=("SSM", "MSM")),
        "SSM+MSM+CGM": _GAIN.row("85.93 | 0.33", features=("SSM", "MSM", "CGM")),
        "SSM+MSM+CGM+PP": _GAIN.row("86.71 | 0.91", features=("SSM", "MSM", "CGM", "PP")),
    },
    data="MovieNet-SSeg, 100 scenes of the test split, five trials",
)

TABLES: dict[str, PaperTable] = {
    "table1": TABLE_1,
    "table2": TABLE_2,
    "table3": TABLE_3,
    "table4a": TABLE_4A,
    "table4b": TABLE_4B,
    "table4c": TABLE_4C,
    "table5": TABLE_5,
    "table6": TABLE_6,
    "table7": TABLE_7,
    "table8": TABLE_8,
    "table9": TABLE_9,
}
"""By number, in the paper's order; Table 4 has three parts."""
