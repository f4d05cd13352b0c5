"""The tables of results of the BaSSL paper, as data.

J. Mun, M. Shin, G. Han, S. Lee, S. Ha, J. Lee, E.-S. Kim: Boundary-aware Self-supervised Learning for Video Scene
Segmentation, arXiv 2201.05277. Numbers are in percent if the column does not state a unit; a deviation is over five
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
class PaperTable:
    """One table, or one of the three parts of Table 4."""

    title: str
    columns: tuple[str, ...]  # the columns of numbers, in the paper's order
    rows: Mapping[str, Mapping[str, Number]]  # by label, in the paper's order, then by column
    data: str  # the test data


def _table(
    title: str, columns: tuple[str, ...], printed: Mapping[str, str], data: str = "MovieNet-SSeg, test split"
) -> PaperTable:
    """Parse a table from the printed cells of its rows: `56.26 ±0.04`, `56.26`, or `-` if the paper has no number."""
    rows: dict[str, dict[str, Number]] = {}
    for label, line in printed.items():
        rows[label] = {}
        for column, cell in zip(columns, line.split("|"), strict=True):
            mean, _, deviation = cell.strip().partition("±")
            if mean != "-":
                rows[label][column] = Number(float(mean), float(deviation) if deviation else None)
    return PaperTable(title, columns, rows, data)


_METRICS = ("AP", "mIoU", "AUC-ROC", "F1")
_CLUSTERS = "MovieNet-SSeg, 100 scenes of the test split, five trials"

TABLES: dict[str, PaperTable] = {
    # Siamese, MS-LSTM and Grouping are from Huang et al. 2020, LGSS, GraphCut, SCSA, DP and Story Graph from Rao et al.
    # 2020. MS-LSTM, LGSS and Grouping also use sound, place, cast or transcript.
    "table1": _table(
        "Comparison with other algorithms",
        _METRICS,
        {
            "Siamese": "35.80 | 39.60 | - | -",
            "MS-LSTM": "46.50 | 46.20 | - | -",
            "LGSS": "47.10 | 48.80 | - | -",
            "GraphCut": "14.10 | 29.70 | - | -",
            "SCSA": "14.70 | 30.50 | - | -",
            "DP": "15.50 | 32.00 | - | -",
            "Story Graph": "25.10 | 35.70 | - | -",
            "Grouping": "33.60 | 37.20 | - | -",
            "BaSSL w/o fine-tuning (10 epochs)": "31.55 | 39.36 | 71.67 | 32.55",
            "ShotCoL": "53.40 | - | - | -",
            "BaSSL (10 epochs)": "56.26 ±0.04 | 49.50 ±0.11 | 90.27 ±0.02 | 45.70 ±0.24",
            "BaSSL (40 epochs)": "57.40 ±0.08 | 50.69 ±0.45 | 90.54 ±0.03 | 47.02 ±0.87",
        },
    ),
    "table2": _table(
        "AP by pre-training and by architecture of the CRN during fine-tuning",
        ("MLP", "MS-LSTM", "Transformer"),
        {
            "M1 ImageNet": "43.12 ±0.14 | 45.10 ±0.55 | 47.13 ±1.04",
            "M2 Places365": "43.82 ±0.10 | 45.87 ±0.40 | 48.71 ±0.50",
            "M3 SimCLR (instance)": "45.60 ±0.07 | 49.09 ±0.24 | 51.51 ±0.31",
            "M4 SimCLR (temporal)": "45.55 ±0.11 | 49.24 ±0.26 | 50.05 ±0.78",
            "M5 SimCLR (NN)": "45.99 ±0.13 | 50.73 ±0.19 | 51.17 ±0.69",
            "M6 BaSSL": "46.53 ±0.11 | 50.58 ±0.14 | 50.82 ±0.69",
            "M7 BaSSL": "- | - | 56.26 ±0.04",
            "M8 M5+M7": "- | - | 56.86 ±0.01",
        },
    ),
    "table3": _table(
        "Combinations of pretext tasks",
        (*_METRICS, "Sum"),
        {
            "P1": "42.57 ±0.29 | 40.12 ±0.50 | 84.11 ±0.15 | 30.83 ±0.79 | 197.63",
            "P2": "36.76 ±0.02 | 40.59 ±0.18 | 82.06 ±0.04 | 30.94 ±0.32 | 190.35",
            "P3": "36.55 ±0.04 | 39.58 ±0.05 | 81.36 ±0.03 | 29.96 ±0.04 | 187.45",
            "P4": "13.33 ±0.23 | 29.80 ±0.39 | 64.65 ±0.98 | 18.68 ±0.39 | 126.45",
            "P5": "55.77 ±0.05 | 48.19 ±0.21 | 90.19 ±0.03 | 43.17 ±0.39 | 237.32",
            "P6": "56.04 ±0.08 | 49.00 ±0.16 | 90.13 ±0.02 | 44.74 ±0.29 | 239.91",
            "P7": "38.09 ±0.03 | 41.25 ±0.10 | 82.85 ±0.01 | 32.24 ±0.24 | 195.43",  # its own sum is 194.43
            "P8": "54.39 ±0.07 | 47.54 ±0.18 | 89.72 ±0.03 | 42.48 ±0.22 | 234.13",
            "P9": "39.49 ±0.04 | 41.71 ±0.12 | 83.27 ±0.02 | 32.85 ±0.20 | 197.32",
            "P10": "38.53 ±0.07 | 40.85 ±0.15 | 82.78 ±0.04 | 31.47 ±0.16 | 193.63",
            "P11": "41.02 ±0.07 | 40.89 ±0.10 | 83.79 ±0.02 | 31.53 ±0.18 | 197.23",
            "P12": "56.10 ±0.08 | 49.10 ±0.17 | 90.09 ±0.03 | 45.42 ±0.30 | 240.71",
            "P13": "56.20 ±0.06 | 48.00 ±0.17 | 90.13 ±0.01 | 43.24 ±0.27 | 237.57",
            "P14": "56.26 ±0.02 | 48.42 ±0.33 | 90.25 ±0.01 | 43.98 ±0.58 | 238.91",
            "P15": "56.26 ±0.04 | 49.50 ±0.11 | 90.27 ±0.02 | 45.70 ±0.24 | 241.73",
        },
    ),
    "table4a": _table(
        "Pseudo-boundary discovery",
        ("AP",),
        {"Random": "46.64 ±0.37", "Fixed": "49.53 ±0.32", "Synthesized": "54.61 ±0.03", "DTW (ours)": "56.26 ±0.04"},
    ),
    "table4b": _table(
        "Number of neighbor shots K",
        ("AP",),
        {"4": "55.98 ±0.10", "8": "56.26 ±0.04", "12": "56.29 ±0.03", "16": "55.31 ±0.04"},
    ),
    "table4c": _table(
        "Number of pre-training epochs",
        ("AP",),
        {"10": "56.26 ±0.04", "20": "56.74 ±0.04", "30": "56.74 ±0.07", "40": "57.40 ±0.08", "50": "57.15 ±0.08"},
    ),
    "table7": _table(
        "AP on other data sets, trained on MovieNet-SSeg and not fine-tuned on them",
        ("SimCLR (instance)", "SimCLR (temporal)", "SimCLR (NN)", "BaSSL"),
        {"BBC": "32.34 | 34.18 | 32.92 | 39.98", "OVSD": "25.45 | 24.92 | 25.02 | 28.68"},
        data="BBC; OVSD without 2 of 21 videos that were not available",
    ),
    "table8": _table(
        "Quality of scene clusters (NMI) by scene length in shots; the last column is the relative change",
        ("Short (8)", "Medium (16)", "Long (32)", "short to long"),
        {
            "ImageNet": "67.50 | 61.60 | 56.25 | -16.67",
            "SimCLR (temporal)": "82.40 | 81.65 | 78.99 | -4.14",
            "SimCLR (NN)": "83.54 | 83.17 | 81.25 | -2.75",
            "BaSSL (ours)": "86.22 | 86.72 | 85.63 | -0.68",
        },
        data=_CLUSTERS,
    ),
    "table9": _table(
        "NMI by pretext tasks; the gain is relative to the row above",
        ("NMI", "gain"),
        {
            "SSM": "85.48 | 0.00",
            "SSM+MSM": "85.64 | 0.19",
            "SSM+MSM+CGM": "85.93 | 0.33",
            "SSM+MSM+CGM+PP": "86.71 | 0.91",
        },
        data=_CLUSTERS,
    ),
}
"""By number, in the paper's order; Table 4 has three parts. Tables 5 and 6 have no results."""
