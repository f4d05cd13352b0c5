"""The storyboard: a band per scene, the images of its shots in order."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipelines.errors import BasslError
from pipelines.outputs.images import save_storyboard
from tests.outputs.exporting import scene_list
from tests.pages import thumbnail

COLORS = ((220, 30, 30), (30, 200, 30), (40, 40, 230), (230, 220, 30))


def plain(color: tuple[int, int, int], size: tuple[int, int] = (90, 160)) -> bytes:
    return thumbnail(np.full((*size, 3), color, np.uint8))


def has_color(picture: np.ndarray, color: tuple[int, int, int]) -> np.ndarray:
    """Which pixels are of a color, as far as WebP keeps it."""
    return np.abs(picture.astype(int) - color).max(axis=2) < 12


def test_a_storyboard_has_one_row_per_scene_with_its_shots_from_left_to_right(tmp_path: Path) -> None:
    path = tmp_path / "board.png"
    save_storyboard(path, scene_list([10] * 4, [1, 3]), [plain(color) for color in COLORS])
    picture = np.asarray(Image.open(path).convert("RGB"))
    places = [np.argwhere(has_color(picture, color)).mean(axis=0) for color in COLORS]
    assert [place[0] for place in places[:2]] == pytest.approx([places[0][0]] * 2)
    assert [place[0] for place in places[2:]] == pytest.approx([places[2][0]] * 2)
    assert places[0][0] < places[2][0]
    assert places[0][1] < places[1][1]
    assert places[0][1] == pytest.approx(places[2][1])


def test_all_images_of_a_storyboard_are_complete(tmp_path: Path) -> None:
    path = tmp_path / "board.png"
    shots = 20
    save_storyboard(path, scene_list([10] * shots, [9, 18, 19]), [plain(COLORS[0])] * shots)
    shown = has_color(np.asarray(Image.open(path).convert("RGB")), COLORS[0]).sum()
    assert shown == pytest.approx(shots * 168 * 94, rel=0.01)


def test_a_scene_with_very_many_shots_shows_an_even_selection(tmp_path: Path) -> None:
    path = tmp_path / "board.png"
    shots = 500
    save_storyboard(path, scene_list([10] * shots, [shots - 1]), [plain(COLORS[i * 4 // shots]) for i in range(shots)])
    picture = np.asarray(Image.open(path).convert("RGB"))
    assert picture.shape[0] < 600
    counts = [has_color(picture, color).sum() for color in COLORS]
    assert min(counts) == pytest.approx(max(counts), rel=0.01)


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (1, 4000), (4000, 1), (240, 135), (101, 51)])
def test_images_of_any_shape_are_drawn(tmp_path: Path, size: tuple[int, int]) -> None:
    save_storyboard(tmp_path / "board.png", scene_list([10] * 1, [0]), [plain(COLORS[0], size)])
    assert Image.open(tmp_path / "board.png").height < 500


def test_an_unwritable_path_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BasslError, match="is a folder"):
        save_storyboard(tmp_path, scene_list([10] * 1, [0]), [plain(COLORS[0])])
