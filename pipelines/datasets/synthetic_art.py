"""Drawing of sets, props and characters for the videos of `pipelines.datasets.synthetic`.

Everything is drawn in meters (x to the right, y up from the ground) with colors in OpenCV's order: blue, green, red.
"""

import colorsys
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Color = tuple[float, float, float]

PROPS = ("telephone", "letter", "cup", "clock", "key")
LIGHTS: dict[str, tuple[Color, float]] = {
    "day": ((1.0, 1.0, 1.0), 0.0),
    "morning": ((1.12, 1.0, 0.86), 0.0),
    "dusk": ((0.6, 0.78, 1.05), 0.6),
    "night": ((0.68, 0.46, 0.36), 1.0),
}
"""Color of the light, and how much the lamps shine."""

_KINDS = ("street", "room", "forest", "kitchen", "coast", "office")
_WORLD = (16.0, 6.0)
_FLOOR = 1.1  # meters of ground in front of the actors' feet: y runs from -_FLOOR to _WORLD[1] - _FLOOR


@dataclass(frozen=True)
class LitSet:
    """Set `number` of the video with this seed in one of the LIGHTS, for frames of `height` pixels."""

    seed: int
    number: int
    light: str
    height: int


@dataclass(frozen=True)
class Actor:
    """A character in a shot, `x` meters along the set at its start, walking at `speed` meters per second.

    Characters look to the right (`facing` 1) or to the left (-1), or stand `near` the camera with their backs to us.
    """

    character: int
    x: float
    facing: int = 1
    speaking: bool = False
    speed: float = 0.0
    near: bool = False


# --- drawing --------------------------------------------------------------------------------------------------------


def _shade(color: Color, factor: float) -> Color:
    return min(255.0, color[0] * factor), min(255.0, color[1] * factor), min(255.0, color[2] * factor)


def _hsv(hue: float, saturation: float, value: float) -> Color:
    red, green, blue = colorsys.hsv_to_rgb(hue % 1.0, saturation, value)
    return 255 * blue, 255 * green, 255 * red


@dataclass(frozen=True)
class Canvas:
    """An image with a position in the world: `left`, `top` in meters are its upper left corner.

    All colors are multiplied by `gain`, the color of the light; lamps and lit windows shine from 0 to 1.
    """

    image: Image
    scale: float  # pixels per meter
    left: float
    top: float
    gain: Color
    lamps: float

    @property
    def unlit(self) -> "Canvas":
        """Return the canvas for what shines itself, whatever the light."""
        return replace(self, gain=(1.0, 1.0, 1.0))

    def _lit(self, color: Color) -> Color:
        return color[0] * self.gain[0], color[1] * self.gain[1], color[2] * self.gain[2]

    def _pixel(self, x: float, y: float) -> tuple[int, int]:
        """Return a point in eighths of a pixel, so that slow motion does not jump."""
        return round((x - self.left) * self.scale * 8), round((self.top - y) * self.scale * 8)

    def _pixels(self, points: Sequence[tuple[float, float]]) -> list[NDArray[np.int32]]:
        return [np.array([self._pixel(x, y) for x, y in points], np.int32)]

    def polygon(self, points: Sequence[tuple[float, float]], color: Color) -> None:
        """Draw a filled polygon."""
        cv2.fillPoly(self.image, self._pixels(points), self._lit(color), cv2.LINE_AA, 3)

    def box(self, x: float, y: float, width: float, height: float, color: Color) -> None:
        """Draw a filled rectangle; x, y is its lower left corner."""
        self.polygon(((x, y), (x + width, y), (x + width, y + height), (x, y + height)), color)

    def disc(self, x: float, y: float, rx: float, ry: float, color: Color, half: bool = False) -> None:
        """Draw a filled ellipse, or its upper half."""
        axes, first = (round(rx * self.scale * 8), round(ry * self.scale * 8)), 180 if half else 0
        cv2.ellipse(self.image, self._pixel(x, y), axes, 0, first, 360, self._lit(color), -1, cv2.LINE_AA, 3)

    def stroke(self, points: Sequence[tuple[float, float]], width: float, color: Color) -> None:
        """Draw a line through points."""
        thickness = max(1, round(width * self.scale))
        cv2.polylines(self.image, self._pixels(points), False, self._lit(color), thickness, cv2.LINE_AA, 3)

    def fade(self, top: float, bottom: float, above: Color, below: Color) -> None:
        """Fill the rows between two heights with a vertical gradient."""
        first, last = (max(0, round((self.top - y) * self.scale)) for y in (top, bottom))
        rows = np.linspace(self._lit(above), self._lit(below), max(1, last - first))[:, None]
        self.image[first:last] = rows[: self.image.shape[0] - first].clip(0, 255).astype(np.uint8)

    def texture(self, rng: Generator, strength: float) -> None:
        """Multiply the image by cloudy noise and with a slow change of light from one side to the other."""
        rows, columns = self.image.shape[:2]
        factor = np.linspace(0.84, 1.16, columns, dtype=np.float32)[:: int(rng.choice((-1, 1)))] * np.ones((rows, 1))
        for octave, cells in enumerate((4, 16, 64)):
            coarse = rng.normal(0, strength / (1 + octave), (cells, 3 * cells))
            factor += cv2.resize(coarse, (columns, rows), interpolation=cv2.INTER_CUBIC)
        self.image[:] = (self.image * factor[..., None]).clip(0, 255).astype(np.uint8)

    def lamp(self, x: float, y: float, standing: bool) -> None:
        """Draw a lamp on a post or from the ceiling, and its light."""
        self.stroke(((x, 0.1 if standing else 4.9), (x, y)), 0.04, _DARK)
        shade = ((x - 0.24, y - 0.1), (x + 0.24, y - 0.1), (x + 0.13, y + 0.22), (x - 0.13, y + 0.22))
        (self.unlit if self.lamps else self).polygon(shade, _WARM)
        if self.lamps:
            rows, columns = np.ogrid[: self.image.shape[0], : self.image.shape[1]]
            across, down = columns / self.scale + self.left - x, self.top - rows / self.scale - y
            fall = np.exp(-(across**2) / 3) * np.exp(-(down**2) / 3) * self.lamps / 2
            self.image[:] = np.minimum(255, self.image + fall[..., None] * np.array(_WARM)).astype(np.uint8)


# --- sets -----------------------------------------------------------------------------------------------------------

_WARM: Color = (120.0, 200.0, 255.0)
_WOOD: Color = (50.0, 85.0, 125.0)
_PALE: Color = (225.0, 235.0, 240.0)
_DARK: Color = (35.0, 35.0, 38.0)


def _paint_street(view: Canvas, rng: Generator, hue: float) -> None:
    x = -0.3
    while x < 16:
        width, height = rng.uniform(1.7, 3.2), rng.uniform(1.8, 3.9)
        wall = _hsv(hue + rng.uniform(-0.08, 0.08), rng.uniform(0.3, 0.65), rng.uniform(0.4, 0.85))
        view.box(x, 0.3, width, height, wall)
        view.box(x, 0.3 + height, width, 0.12, _shade(wall, 0.6))
        for pane in np.ndindex(int(height / 0.95), int(width / 0.7)):
            u, v = x + 0.2 + 0.7 * pane[1], 0.55 + 0.95 * pane[0]
            view.box(u - 0.04, v - 0.04, 0.46, 0.68, _shade(wall, 1.3))
            shines = rng.random() < 0.6 and view.lamps
            (view.unlit if shines else view).box(u, v, 0.38, 0.6, _WARM if shines else (95, 75, 60))
        u = x + 0.2 + 0.7 * int(rng.integers(int(width / 0.7)))
        view.box(u - 0.06, 0.3, 0.56, 1.15, _hsv(rng.random(), 0.6, 0.45))
        view.polygon(((u - 0.2, 1.45), (u + 0.7, 1.45), (u + 0.6, 1.7), (u - 0.1, 1.7)), _hsv(rng.random(), 0.7, 0.8))
        x += width + float(rng.choice((0.0, 0.0, 0.7)))
    view.fade(0.32, -_FLOOR, (150, 150, 155), (95, 92, 95))
    view.box(0, -0.75, 16, 0.07, _PALE)
    for x in rng.uniform(0.5, 4) + 5.0 * np.arange(3):
        view.lamp(x, 2.3, True)


def _paint_forest(view: Canvas, rng: Generator, hue: float) -> None:
    for far in range(3):
        for x in rng.uniform(0, 16, 5):
            tone = _hsv(hue + 0.05 * far, 0.25 + 0.15 * far, 0.75 - 0.13 * far)
            view.disc(x, 0.3, rng.uniform(2, 4), rng.uniform(0.8, 1.9) - 0.3 * far, tone)
    view.fade(0.5, -_FLOOR, _hsv(hue, 0.5, 0.6), _hsv(hue, 0.6, 0.38))
    for x in np.sort(rng.uniform(0, 16, 13)):
        size, leaf = rng.uniform(0.8, 1.6), _hsv(hue + rng.uniform(-0.07, 0.07), 0.55, rng.uniform(0.3, 0.6))
        view.polygon(((x - 0.09 * size, 0.2), (x + 0.09 * size, 0.2), (x, 2 * size)), _WOOD)
        for lobe in range(7):
            u = x + rng.uniform(-0.5, 0.5) * size
            view.disc(u, (1.4 + 0.2 * lobe) * size, 0.5 * size, 0.38 * size, _shade(leaf, 0.75 + 0.08 * lobe))
    for x, y in rng.uniform((0, -1), (16, 0.3), (90, 2)):
        view.disc(x, y, 0.04, 0.04, _hsv(hue + 0.5, rng.uniform(0.2, 0.8), 0.95))


def _paint_coast(view: Canvas, rng: Generator, hue: float) -> None:
    view.fade(1.15, 0.3, _hsv(hue, 0.6, 0.6), _hsv(hue, 0.45, 0.8))
    for x, y in rng.uniform((0, 0.35), (16, 1.1), (50, 2)):
        view.stroke(((x, y), (x + 0.4, y)), 0.02, _hsv(hue, 0.2, 0.95))
    for x in rng.uniform(1, 15, 3):
        view.polygon(((x - 0.5, 1.05), (x + 0.5, 1.05), (x + 0.3, 0.9), (x - 0.3, 0.9)), _hsv(rng.random(), 0.6, 0.5))
        view.polygon(((x, 1.1), (x, 2.1), (x + 0.5, 1.15)), _PALE)
    view.fade(0.35, -_FLOOR, _hsv(0.11, 0.3, 0.9), _hsv(0.1, 0.45, 0.7))
    for x in rng.uniform((0, 11), (4, 15)).repeat(5) + np.tile(np.arange(5) / 2, 2):
        view.disc(x, 0.2, rng.uniform(0.5, 0.9), rng.uniform(0.5, 2.0), _hsv(hue, 0.15, rng.uniform(0.3, 0.55)), True)


def _paint_indoors(view: Canvas, rng: Generator, hue: float, kind: str) -> None:
    # Three walls of different brightness: the speakers have different backgrounds.
    corners = (0.0, *(np.array((5.2, 10.8)) + rng.uniform(-0.5, 0.5, 2)), 16.0)
    step = {"room": 0.35, "kitchen": 0.3, "office": 1.3}[kind]  # of the wallpaper, the tiles, the panels
    saturation, value = rng.uniform(0.25, 0.55), rng.uniform(0.55, 0.85)
    for wall, tone in enumerate(rng.permutation((0.6, 0.9, 1.15))):
        color, (x0, x1) = _hsv(hue, saturation, min(1.0, value * tone)), corners[wall : wall + 2]
        view.box(x0, 0.3, x1 - x0, 4.7, color)
        for x in np.arange(x0 + step, x1, step):
            view.stroke(((x, 0.3), (x, 5)), 0.1 if kind == "room" else 0.025, _shade(color, 0.88))
        for y in np.arange(0.6, 5, 0.3) if kind == "kitchen" else (0.42, 3.6):
            view.stroke(((x0, y), (x1, y)), 0.025, _shade(color, 0.8))
    view.fade(0.36, -_FLOOR, _hsv(hue + 0.45, 0.35, 0.5), _hsv(hue + 0.45, 0.4, 0.32))
    for x in np.arange(-8, 24, 1.0):
        view.stroke(((x, -_FLOOR), (8 + 0.7 * (x - 8), 0.36)), 0.025, _hsv(hue + 0.45, 0.4, 0.27))
    spots = np.array((1.0, 4.2, 6.6, 9.4, 11.8, 14.0)) + rng.uniform(-0.3, 0.3, 6)
    things = rng.permutation(("window", "shelf", "picture", "door", "window", "picture"))
    for x, thing in zip(spots, things, strict=True):
        _paint_thing(view, rng, x, str(thing), hue)
    furniture = _hsv(hue + 0.33, rng.uniform(0.4, 0.7), rng.uniform(0.45, 0.8))
    for x in spots[::2] + rng.uniform(0.2, 0.6):
        if kind == "room":  # a sofa
            view.box(x, 0.15, 2.0, 0.9, furniture)
            view.box(x, 0.15, 2.0, 0.45, _shade(furniture, 0.85))
            for side in (-0.15, 1.85):
                view.box(x + side, 0.1, 0.3, 0.75, _shade(furniture, 1.2))
            continue
        view.box(x, 0.1, 2.1, 0.8, furniture)
        view.box(x - 0.1, 0.88, 2.3, 0.08, _PALE)
        for u in rng.uniform(0.1, 2.0, 4):
            view.box(x + u, 0.96, 0.08, rng.uniform(0.1, 0.35), _hsv(rng.random(), 0.5, 0.7))
        if kind == "office":
            view.box(x + 0.6, 1.05, 0.75, 0.5, _DARK)
            view.unlit.box(x + 0.64, 1.09, 0.67, 0.42, _hsv(hue + 0.5, 0.5, 0.8))
    for x in rng.uniform(1, 3) + 5.0 * np.arange(3):
        view.lamp(x, 1.7 if kind == "room" else 3.0, kind == "room")


def _paint_thing(view: Canvas, rng: Generator, x: float, thing: str, hue: float) -> None:
    """Paint an object on or in front of a wall."""
    if thing == "window":
        outside, dim = (view, 0.5) if view.lamps > 0.8 else (view.unlit, 1 - 0.5 * view.lamps)
        view.box(x - 0.08, 1.07, 1.66, 1.76, _PALE)
        outside.box(x, 1.15, 1.5, 1.6, _shade((250, 225, 190), dim))
        outside.box(x, 1.15, 1.5, 0.5, _shade((120, 175, 130), dim))
        view.stroke(((x + 0.75, 1.15), (x + 0.75, 2.75)), 0.06, _PALE)
    elif thing == "shelf":
        view.box(x, 0.4, 1.7, 2.5, _WOOD)
        for y in (0.5, 1.1, 1.7, 2.3):
            view.box(x + 0.06, y, 1.58, 0.5, _shade(_WOOD, 0.45))
            for u in np.arange(x + 0.08, x + 1.5, 0.12):
                tone = _hsv(hue + rng.uniform(-0.2, 0.2), rng.uniform(0.3, 0.8), rng.uniform(0.4, 0.9))
                view.box(u, y, rng.uniform(0.07, 0.11), rng.uniform(0.3, 0.46), tone)
    elif thing == "picture":
        view.box(x, 1.5, 0.9, 0.7, _shade(_WOOD, 0.7))
        view.box(x + 0.07, 1.57, 0.76, 0.56, _hsv(rng.random(), 0.4, 0.85))
        view.disc(x + 0.45, 1.57, 0.3, rng.uniform(0.15, 0.45), _hsv(rng.random(), 0.6, 0.6), True)
    else:
        view.box(x, 0.33, 1.0, 2.1, _shade(_WOOD, 1.2))
        view.box(x + 0.12, 1.4, 0.76, 0.85, _shade(_WOOD, 0.9))
        view.disc(x + 0.88, 1.25, 0.05, 0.05, _WARM)


def _set_hue(place: LitSet) -> float:
    """Return the base hue of a set; steps of the golden section keep a video's sets apart."""
    return (0.37 * place.seed + 0.618 * place.number) % 1.0


def _canvas(width: float, height: float, scale: float, top: float, light: str) -> Canvas:
    return Canvas(np.zeros((round(height * scale), round(width * scale), 3), np.uint8), scale, 0.0, top, *LIGHTS[light])


@lru_cache(maxsize=4)
def set_backdrop(place: LitSet) -> Canvas:
    """Return the whole set, painted once per scene; a set that recurs in another light is the same set."""
    kinds = np.random.default_rng([place.seed, 1]).permutation(_KINDS)
    kind, hue = str(kinds[place.number % len(kinds)]), _set_hue(place)
    rng = np.random.default_rng([place.seed, 2, place.number])
    view = _canvas(*_WORLD, place.height / 4.0, _WORLD[1] - _FLOOR, place.light)
    view.fade(5.0, 0.6, _hsv(0.57, 0.6, 0.9), _hsv(0.55, 0.15, 1.0))
    for x, y in rng.uniform((0, 2.6), (16, 4.6), (6, 2)):
        for lobe in (-0.5, 0.0, 0.45):
            view.disc(x + lobe, y, 0.5, 0.24 - 0.2 * abs(lobe), (250, 248, 245))
    if kind == "street":
        _paint_street(view, rng, hue)
    elif kind == "forest":
        _paint_forest(view, rng, 0.2 + 0.2 * hue)
    elif kind == "coast":
        _paint_coast(view, rng, 0.5 + 0.12 * hue)
    else:
        _paint_indoors(view, rng, hue, kind)
    view.texture(rng, 0.05)
    return view


@lru_cache(maxsize=4)
def insert_backdrop(place: LitSet, prop: int) -> Canvas:
    """Return a table top of the set with one of the PROPS on it."""
    rng, hue = np.random.default_rng([place.seed, 3, place.number, prop]), _set_hue(place)
    view = _canvas(1.6, 0.9, place.height / 0.6, 0.9, place.light)
    table = _hsv(hue, rng.uniform(0.3, 0.6), rng.uniform(0.35, 0.7))
    view.fade(0.9, 0.0, _shade(table, 0.7), _shade(table, 1.2))
    for y in np.arange(0.08, 0.9, 0.13):
        view.stroke(((0, y), (1.6, y + rng.uniform(-0.04, 0.04))), 0.008, _shade(table, 0.6))
    view.disc(0.82, 0.4, 0.26, 0.19, _shade(table, 0.45))
    main = _hsv(hue + 0.45 + 0.1 * prop, 0.75, 0.85)
    thing = PROPS[prop]
    if thing == "telephone":
        view.box(0.7, 0.23, 0.2, 0.42, _DARK)
        view.box(0.715, 0.27, 0.17, 0.34, main)
        for row in range(4):
            view.box(0.73, 0.55 - 0.07 * row, 0.09 + 0.04 * (row % 2), 0.035, _PALE)
    elif thing == "letter":
        view.polygon(((0.57, 0.27), (0.96, 0.22), (1.03, 0.63), (0.62, 0.67)), _PALE)
        for row in range(6):
            view.stroke(((0.64, 0.6 - 0.05 * row), (0.93, 0.57 - 0.05 * row)), 0.01, _shade(main, 0.5))
    elif thing == "cup":
        view.disc(0.8, 0.3, 0.27, 0.09, _PALE)
        view.disc(0.98, 0.45, 0.1, 0.09, main)
        view.disc(0.98, 0.45, 0.06, 0.05, _shade(table, 0.8))
        view.polygon(((0.62, 0.6), (0.98, 0.6), (0.91, 0.3), (0.69, 0.3)), main)
        view.disc(0.8, 0.6, 0.18, 0.05, _shade(main, 1.3))
        view.disc(0.8, 0.595, 0.155, 0.038, (25, 45, 75))
    elif thing == "clock":
        view.disc(0.8, 0.45, 0.27, 0.27, main)
        view.disc(0.8, 0.45, 0.23, 0.23, _PALE)
        for angle in np.arange(12) * math.pi / 6:
            view.disc(0.8 + 0.2 * math.sin(angle), 0.45 + 0.2 * math.cos(angle), 0.012, 0.012, _DARK)
        for angle, long in zip(rng.uniform(0, 6.3, 2), (0.17, 0.1), strict=True):
            view.stroke(((0.8, 0.45), (0.8 + long * math.sin(angle), 0.45 + long * math.cos(angle))), 0.015, _DARK)
    else:
        for shadow, color in ((0.02, _DARK), (0.0, main)):
            view.disc(0.6, 0.45, 0.11 + shadow, 0.11 + shadow, color)
            view.stroke(((0.68, 0.45), (1.03, 0.45), (1.03, 0.35)), 0.045 + 2 * shadow, color)
            view.stroke(((0.94, 0.45), (0.94, 0.37)), 0.045 + 2 * shadow, color)
        view.disc(0.6, 0.45, 0.055, 0.055, table)
    view.texture(rng, 0.04)
    return view


# --- characters -----------------------------------------------------------------------------------------------------

_SKINS = ((170, 200, 240), (140, 180, 225), (105, 150, 200), (70, 105, 160), (50, 75, 115))
_HAIRS = ((25, 25, 30), (35, 55, 85), (60, 130, 190), (30, 70, 150), (170, 175, 180), (90, 200, 240))


@dataclass(frozen=True)
class _Appearance:
    """What a character looks like, the same in the whole video."""

    skin: Color
    hair: Color
    style: str
    shirt: Color
    trousers: Color
    size: float
    glasses: bool
    phase: float


@lru_cache(maxsize=256)
def _look(seed: int, character: int) -> _Appearance:
    rng = np.random.default_rng([seed, 4, character])
    skin, hair = _SKINS[rng.integers(len(_SKINS))], _HAIRS[rng.integers(len(_HAIRS))]
    style = ("short", "long", "bun", "hat", "bald")[(character + seed) % 5]
    shirt = _hsv(0.618 * character + 0.2 * seed, rng.uniform(0.6, 0.9), rng.uniform(0.6, 0.95))
    trousers = _hsv(rng.random(), 0.4, rng.uniform(0.2, 0.5))
    size, glasses, phase = rng.uniform(0.92, 1.06), rng.random() < 0.3, rng.uniform(0, 6)
    return _Appearance(skin, hair, style, shirt, trousers, size, glasses, phase)


def draw_figure(view: Canvas, actor: Actor, seed: int, time: float) -> None:
    """Draw one character from shoes to hat; breathing, swaying, blinking, talking and walking with `time` (s)."""
    look = _look(seed, actor.character)
    # The view is moved and scaled rather than the figure: the numbers below describe one adult of 1.7 m at x = 0.
    left, top = (view.left - actor.x - actor.speed * time) / look.size, view.top / look.size
    view = replace(view, scale=view.scale * look.size, left=left, top=top)
    now = time + look.phase
    breath, sway = 0.006 * math.sin(2 * now), 0.014 * math.sin(1.1 * now)
    swing = 0.22 * math.sin(5 * now) if actor.speed else 0.0
    raised = 0.12 + 0.1 * math.sin(3 * now) if actor.speaking else 0.0
    sleeve, skin, hair, shoulders = _shade(look.shirt, 0.8), look.skin, look.hair, 1.31 + breath
    below = view.top - view.image.shape[0] / view.scale
    for side in (-1, 1) if below < 0.9 else ():  # no legs in a close-up
        foot = (0.09 + swing) * side
        view.disc(foot + 0.04 * actor.facing, 0.03, 0.11, 0.05, _DARK)
        view.stroke(((0.08 * side, 0.82), (foot, 0.08)), 0.15, _shade(look.trousers, 1.1 - 0.15 * side))
    if look.style == "long":
        view.disc(sway, 1.44, 0.19, 0.27, _shade(hair, 0.8))
    for side in (-1, 1):
        lift = raised if side == actor.facing else 0.0
        hand = ((0.25 + 0.9 * lift - 0.5 * swing) * side, 0.8 + 1.6 * lift)
        view.stroke(((0.2 * side, shoulders), (0.29 * side, 1.05), hand), 0.1, sleeve)
        view.disc(*hand, 0.06, 0.06, skin)
    view.disc(0, shoulders, 0.24, 0.1, look.shirt)
    view.polygon(((-0.24, shoulders), (0.24, shoulders), (0.18, 0.76), (-0.18, 0.76)), look.shirt)
    view.polygon(((0.1, shoulders + 0.08), (0.24, shoulders), (0.18, 0.76), (0.1, 0.76)), sleeve)
    view.box(sway / 2 - 0.05, 1.33, 0.1, 0.12, _shade(skin, 0.8))
    view.disc(sway, 1.52, 0.15, 0.04, _shade(skin, 0.9))  # ears
    view.disc(sway, 1.53, 0.13, 0.17, hair if actor.near and look.style != "bald" else skin)
    if look.style == "hat":
        view.disc(sway, 1.62, 0.14, 0.17, look.trousers, True)
        view.disc(sway, 1.62, 0.22, 0.03, _shade(look.trousers, 0.8))
    elif look.style != "bald":
        view.disc(sway, 1.57, 0.142, 0.15, hair, True)
        fringe = ((-0.14, 1.58), (0.14, 1.58), (0.11, 1.53), (-0.05 * actor.facing, 1.6), (-0.12, 1.53))
        view.polygon([(sway + x, y) for x, y in fringe], hair)
        if look.style == "bun":
            view.disc(sway, 1.75, 0.07, 0.06, hair)
    if actor.near:
        return
    nose = sway + 0.035 * actor.facing
    for eye in (nose - 0.048, nose + 0.048):
        open_eye = 0.021 if now % 3.1 > 0.14 else 0.004
        if look.glasses:
            view.disc(eye, 1.538, 0.044, 0.038, _DARK)
            view.disc(eye, 1.538, 0.036, 0.03, _shade(skin, 1.1))
        view.disc(eye, 1.538, 0.026, open_eye, _PALE)
        view.disc(eye + 0.008 * actor.facing, 1.538, 0.012, min(0.014, open_eye), _DARK)
        view.stroke(((eye - 0.03, 1.58), (eye + 0.03, 1.58)), 0.011, _shade(hair, 0.7))
    view.stroke(((nose, 1.53), (nose + 0.02 * actor.facing, 1.485), (nose, 1.483)), 0.01, _shade(skin, 0.7))
    view.disc(nose, 1.44, 0.04, 0.028 * abs(math.sin(8 * now)) if actor.speaking else 0.006, (60, 50, 130))
