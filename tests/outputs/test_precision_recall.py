import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
from PIL import Image

from pipelines.errors import BasslError
from pipelines.evaluation.metrics import VideoScores
from pipelines.outputs.plots import save_curves
from tests.evaluation.scored_videos import one_video, videos
from tests.small_stores import refusal


def test_a_png_plot_of_one_model_is_a_colored_image(tmp_path: Path) -> None:
    save_curves(tmp_path / "a.png", {"mine": videos()}, 0.5)
    picture = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).astype(int)
    assert picture.shape[1] == 1500
    blue = (picture[..., 2] - picture[..., 0] > 80).sum()
    assert blue > 2000  # the curve, its reliability and the counts of shots


def test_an_svg_plot_names_both_models_and_their_scores(tmp_path: Path) -> None:
    save_curves(tmp_path / "a.svg", {"mine": videos(), "theirs": videos(levels=6)}, 0.4)
    text = "".join(ET.parse(tmp_path / "a.svg").getroot().itertext())
    for word in ("mine  AP", "theirs  AP", "chance  AP", "0.4", "calibration error", "recall of scene ends"):
        assert word in text


def test_nothing_to_draw_gives_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    video = videos(1)[0]
    listed = VideoScores(video.labels, np.full(len(video.labels), np.nan), video.shots, predicted=video.scores > 0.5)
    for bad in (listed, one_video([0, 0], [0.1, 0.9]), one_video([0, 1], [0.1, 1.5]), None):
        scored = {"mine": [] if bad is None else [bad]}
        refusal(lambda: save_curves(path, scored, 0.5), "mine", "scores between 0 and 1", error=BasslError)  # noqa: B023
    assert list(tmp_path.iterdir()) == []
