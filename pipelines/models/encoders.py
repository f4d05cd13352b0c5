"""Shot encoders f_ENC: the key-frames of a shot to one vector, the mean over its key-frames (paper, appendix A).

An encoder has an id, its name and a digest of all that decides what its features are: the weights, the preparation of
pictures and the number of key-frames. Features are kept under that id, so that those of another encoder are never
taken for them.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import BasslError, StoreError, first_line
from pipelines.models.bassl import BasslWeights
from pipelines.models.efficientnet_lite import (
    EfficientNetLite0,
    efficientnet_lite0_from,
    published_efficientnet_lite0,
)
from pipelines.models.opening import open_model
from pipelines.models.threads import one_thread

Item = TypeVar("Item")

DEFAULT_ENCODER = "efficientnet_lite0"
KEYFRAMES = 3
"""Key-frames a shot, N_k, where nothing else is said (paper, appendix A)."""
INPUT_SIZE = 224
"""Side of the input of an encoder that was pre-trained here, where its run does not say (appendix A)."""
RESNETS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")

# Six to eight pictures at a time: more would leave the caches of a CPU and gain nothing. A GPU needs many.
_PICTURES_AT_A_TIME = {"cpu": 6, "cuda": 192}

# What `resize_to_square` does. It is part of an encoder's id: change it with the function.
_RESIZE = "whole picture to a square: linear, or area beyond twice the size"


@dataclass(frozen=True)
class ShotEncoder:
    """A frozen image network with the preparation that its weights expect.

    Attributes:
        name: as on the command line; for a pre-trained one the name of its architecture.
        id: name and digest of weights and preparation; safe as a file name.
        network: (B, 3, size, size) to (B, D_e).
        width: D_e.
        size: side of its square input in pixels.
        mean, std: of the input's channels, on the scale of 0 to 255.
        device, dtype: where and in what precision it runs.
        keyframes: N_k, how many pictures of a shot it is to be given; part of the id.
    """

    name: str
    id: str
    network: nn.Module
    width: int
    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    device: torch.device
    dtype: torch.dtype
    keyframes: int = KEYFRAMES

    @property
    def facts(self) -> dict[str, Any]:
        """What a model that is trained on its features must remember of it, as plain JSON values."""
        return {"id": self.id, "name": self.name} | preparation(self.size, self.mean, self.std, self.keyframes)

    @property
    def shots_at_a_time(self) -> int:
        """Shots that are encoded together.

        How many pictures a convolution is given decides how it is computed, and so the last bits of a feature. Shots
        are therefore always encoded in groups of this many from the film's first on, whoever asks for them.
        """
        return max(1, self._pictures_at_a_time // self.keyframes)

    @property
    def _pictures_at_a_time(self) -> int:
        return _PICTURES_AT_A_TIME.get(self.device.type, 6)

    def prepare(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """A picture (H, W, 3) at the network's input size. The whole picture is kept, squeezed to a square."""
        return resize_to_square(picture, self.size)

    def encode(self, shots: Sequence[Sequence[NDArray[np.uint8]]]) -> NDArray[np.float32]:
        """Encode shots together.

        Args:
            shots: for each shot its N_k prepared key-frames, (size, size, 3) uint8 RGB.

        Returns:
            (len(shots), D_e) float32: for each shot the mean over its key-frames.
        """
        pictures = torch.from_numpy(np.stack([picture for shot in shots for picture in shot]))
        with torch.inference_mode():
            features = torch.cat([self._features(batch) for batch in torch.split(pictures, self._pictures_at_a_time)])
            counts = [len(shot) for shot in shots]
            means = [part.mean(dim=0) for part in torch.split(features, counts)]
        return np.asarray(torch.stack(means).cpu().numpy(), np.float32)

    def _features(self, pictures: Tensor) -> Tensor:
        B, H, W, C = pictures.shape
        # A line of pixels at a time: an operation over three channels at a time takes fifteen times as long.
        mean, std = (torch.tensor(v, device=self.device).repeat(W) for v in (self.mean, self.std))
        x = pictures.to(self.device).view(B, H, W * C).float().sub_(mean).div_(std).to(self.dtype)
        # (B, H, W, 3) seen as (B, 3, H, W) is channels-last already, the layout that convolutions like best.
        x = x.view(B, H, W, C).permute(0, 3, 1, 2)
        features: Tensor = self.network(x)
        return features.float()


def encode_groups(
    encoder: ShotEncoder,
    groups: Iterable[Item],
    pictures_of: Callable[[Item], Sequence[Sequence[NDArray[np.uint8]]]],
    threads: int,
) -> Generator[tuple[Item, NDArray[np.float32]], None, None]:
    """Encode groups of shots by threads, each with its features in the order in which they came.

    A thread makes the pictures of a group and encodes them, with one core to itself: on a CPU several small batches
    side by side are faster than one whose every layer is shared out, and the result does not depend on how many they
    are.

    Args:
        encoder: what encodes.
        groups: each of at most ``encoder.shots_at_a_time`` shots; taken as room is.
        pictures_of: the prepared key-frames of a group's shots; called in the threads.
        threads: how many.
    """

    def work(group: Item) -> NDArray[np.float32]:
        return encoder.encode(pictures_of(group))

    running: deque[tuple[Item, Future[NDArray[np.float32]]]] = deque()
    with one_thread(), ThreadPoolExecutor(threads) as pool:
        try:
            for group in groups:
                running.append((group, pool.submit(work, group)))
                while running and (len(running) > 2 * threads or running[0][1].done()):
                    done, features = running.popleft()
                    yield done, features.result()
            while running:
                done, features = running.popleft()
                yield done, features.result()
        finally:
            pool.shutdown(cancel_futures=True)


def resize_to_square(picture: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """A picture (H, W, 3) squeezed or stretched to (size, size, 3)."""
    # Below a factor of two bilinear interpolation sees nearly every pixel, at a quarter of the time of a true mean.
    how = cv2.INTER_AREA if max(picture.shape[:2]) > 2 * size else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, (size, size), interpolation=how), np.uint8)


def preparation(size: int, mean: Sequence[float], std: Sequence[float], keyframes: int = KEYFRAMES) -> dict[str, Any]:
    """What is done to key-frames before the network sees them, as plain JSON values."""
    return {"size": size, "mean": list(mean), "std": list(std), "resize": _RESIZE, "keyframes": keyframes}


def encoder_id(name: str, weights: Mapping[str, Tensor], preprocessing: Mapping[str, Any]) -> str:
    """What features of an encoder are called: its name and a digest of all that decides them.

    Args:
        name: of the network, such as ``resnet50`` or ``timm:vit_small``.
        weights: its state dict.
        preprocessing: as :func:`preparation` gives it.

    Returns:
        such as ``resnet50-3f2a91c07d1e``: the name, safe as that of a file, and 12 hexadecimal digits of a SHA-256.
    """
    digest = hashlib.sha256(json.dumps(dict(preprocessing), sort_keys=True).encode())
    for key in sorted(weights):
        tensor = weights[key].detach().cpu().contiguous()
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return f"{re.sub(r'[^A-Za-z0-9_.]+', '-', name)}-{digest.hexdigest()[:12]}"


def named_encoder(identity: str) -> str | None:
    """The name, as on the command line, of the encoder that an id is of; None where it is no such id."""
    found = re.fullmatch(r"(.+)-[0-9a-f]{12}", identity)
    if found is None:
        return None
    name = re.sub("^timm-", "timm:", found[1])
    return name if name == DEFAULT_ENCODER or name in RESNETS or name.startswith("timm:") else None


def load_encoder(source: str | Path = DEFAULT_ENCODER, device: str = "auto", keyframes: int = KEYFRAMES) -> ShotEncoder:
    """A shot encoder, ready to run.

    Args:
        source: ``efficientnet_lite0`` (ImageNet weights from a package, needs no network), ``resnet50`` or another of
            torchvision's ResNets (ImageNet weights, downloaded once), ``timm:NAME`` (any model of timm, downloaded
            once), or the path of a pre-trained model's file or run folder, for the encoder in it.
        device: ``auto`` (a GPU where there is one), ``cpu``, ``cuda``, ``cuda:1``, ...
        keyframes: N_k, of the shots that are to be encoded.

    Raises:
        BasslError: one line, for an unknown name or device, weights that cannot be downloaded, or a model without an
            encoder.
    """
    if isinstance(source, Path):
        opened = open_model(source)
        return encoder_of_weights(opened.file, opened.weights, device, keyframes)
    place = choose_device(device)
    network: nn.Module
    if source == "efficientnet_lite0":
        weights = published_efficientnet_lite0()
        network, width, size = efficientnet_lite0_from(weights), EfficientNetLite0.dimension, 224
        # Trained on (x - 127) / 128, as all EfficientNet-Lite weights.
        mean, std = (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)
    elif source in RESNETS:
        network, width = _load_resnet(source)
        weights, size, (mean, std) = network.state_dict(), 224, _IMAGENET
    elif source.startswith("timm:"):
        network, size, mean, std = _load_timm(source.removeprefix("timm:"))
        weights, width = network.state_dict(), _width(network, size)
    else:
        if source and Path(source).exists():
            return load_encoder(Path(source), device, keyframes)
        raise BasslError(
            f"no encoder is called {source!r}; there are efficientnet_lite0, resnet50 and timm:NAME, and those in the "
            "folders of pre-trained runs"
        )
    # The published weights: folding batch norms into them may give other last bits on another machine.
    identity = encoder_id(source, weights, preparation(size, mean, std, keyframes))
    return _ready(source, identity, network, width, size, mean, std, place, keyframes)


def rebuild_encoder(
    name: str, weights: Mapping[str, Tensor], device: str = "auto", keyframes: int = KEYFRAMES, size: int = INPUT_SIZE
) -> ShotEncoder:
    """The encoder that a model file says it has.

    Args:
        name: ``resnet18`` to ``resnet152`` or ``timm:NAME``; where there are no weights, any that
            :func:`load_encoder` knows.
        weights: its state dict; empty where the name alone says which they are.
        device: as for :func:`load_encoder`.
        keyframes: N_k.
        size: side of its input, for one with weights.

    Raises:
        BasslError: one line, for an unknown name or device.
        ValueError: the weights are not those of such a network.
    """
    if not weights:
        return load_encoder(name, device, keyframes)
    from pipelines.stages.pretrain.model import trainable_encoder

    place = choose_device(device)
    built = trainable_encoder(name, pretrained=False)
    try:
        built.network.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(first_line(error)) from error
    mean, std = (_scaled(colours) for colours in (built.mean, built.std))
    network = built.network.eval()
    identity = encoder_id(name, weights, preparation(size, mean, std, keyframes))
    width = built.width if name in RESNETS else _width(network, size)
    return _ready(name, identity, network, width, size, mean, std, place, keyframes)


def encoder_of_weights(
    path: Path, model: BasslWeights, device: str = "auto", keyframes: int = KEYFRAMES
) -> ShotEncoder:
    """The shot encoder of the paper's model: the one that it has, or the one whose features it was trained on.

    Args:
        path: of the model, for messages.
        model: with weights of an encoder, or its name or id.
        device, keyframes: as for :func:`load_encoder`.

    Raises:
        BasslError: one line, where it has none, or that is not known.
    """
    name = model.settings.encoder
    if name is None:
        raise StoreError(f"{path}: has no shot encoder; name another model or an encoder")
    if not model.encoder:
        return encoder_of_id(name, device, keyframes, str(path))
    size = (model.training.get("augmentation") or {}).get("size", INPUT_SIZE)
    try:
        return rebuild_encoder(name, model.encoder, device, keyframes, int(size))
    except (TypeError, ValueError) as error:
        raise StoreError(f"{path}: its shot encoder is no {name}; get or make the model again") from error
    except BasslError as error:
        raise BasslError(f"{path}: {error}") from error


def encoder_of_id(identity: str, device: str, keyframes: int, asker: str) -> ShotEncoder:
    """The encoder with an id, or with a name; what was trained on its features needs just this one.

    Args:
        identity: of an encoder whose weights can be had by name.
        device, keyframes: as for :func:`load_encoder`.
        asker: for the message, what was trained on it.

    Raises:
        BasslError: one line, where it is not known, or is another one here.
    """
    name = named_encoder(identity)
    if name is None:
        if identity in (DEFAULT_ENCODER, *RESNETS) or identity.startswith("timm:"):
            return load_encoder(identity, device, keyframes)
        raise BasslError(
            f"{asker}: was trained on features called {identity!r}, which cannot be computed from pictures here; "
            "train it on features of an encoder of bassl"
        )
    encoder = load_encoder(name, device, keyframes)
    if encoder.id != identity:
        raise BasslError(
            f"{asker}: was trained on features of {identity}, and {name} with {keyframes} key-frames a shot is "
            f"{encoder.id} here; train it on features of this one"
        )
    return encoder


def _ready(
    name: str,
    identity: str,
    network: nn.Module,
    width: int,
    size: int,
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
    place: torch.device,
    keyframes: int,
) -> ShotEncoder:
    dtype = _fastest_dtype(place)
    network = network.eval().requires_grad_(False).to(place, dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return ShotEncoder(name, identity, network, width, size, mean, std, place, dtype, keyframes)


def _width(network: nn.Module, size: int) -> int:
    """D_e, seen from what comes out: what timm's models say of it is not true of all."""
    with torch.inference_mode():
        return int(network.eval()(torch.zeros(1, 3, size, size)).shape[1])


def choose_device(name: str) -> torch.device:
    """The torch device for ``auto`` or a device's name.

    Raises:
        BasslError: for a device that torch does not know or that is not there.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError) as error:
        raise BasslError(f"the device {name!r} is not there: {str(error).splitlines()[0]}") from error
    return device


def _fastest_dtype(device: torch.device) -> torch.dtype:
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if device.type == "cpu" and (_cpu_has("avx512_bf16") or _cpu_has("amx_tile")):
        return torch.bfloat16
    return torch.float32  # elsewhere bf16 is emulated and slower


def _cpu_has(feature: str) -> bool:
    check: Callable[[], bool] | None = getattr(torch.cpu, f"_is_{feature}_supported", None)
    return check is not None and bool(check())


_Colour = tuple[float, float, float]
_IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))


def _scaled(colour: Sequence[float]) -> _Colour:
    """From the scale of 0 to 1 to that of 0 to 255."""
    red, green, blue = (round(255.0 * float(v), 6) for v in colour)  # 255 * 0.485 is 123.67499999999998
    return red, green, blue


def _load_resnet(name: str) -> tuple[nn.Module, int]:
    models = import_torchvision().models
    try:
        with redirect_stdout(sys.stderr):  # torch prints where the weights come from; results have stdout to themselves
            network = models.get_model(name, weights=models.get_model_weights(name).IMAGENET1K_V1, progress=False)
    except (OSError, RuntimeError) as error:
        raise BasslError(f"the weights of {name} cannot be downloaded ({first_line(error)})") from error
    width = network.fc.in_features
    network.fc = nn.Identity()
    return network, width


def _load_timm(name: str) -> tuple[nn.Module, int, _Colour, _Colour]:
    import_torchvision()
    import timm

    if not timm.is_model(name):
        similar = ", ".join(timm.list_models(f"*{name}*")[:5])
        raise BasslError(f"timm has no model {name!r}" + (f"; similar: {similar}" if similar else ""))
    try:
        network = timm.create_model(name, pretrained=True, num_classes=0)
    except Exception as error:  # the hub's client raises its own, changing types for a network that is not there
        raise BasslError(f"the weights of timm:{name} cannot be had ({first_line(error)})") from error
    config = timm.data.resolve_model_data_config(network)
    return network, int(config["input_size"][-1]), _scaled(config["mean"]), _scaled(config["std"])


def import_torchvision() -> ModuleType:
    """torchvision, or one clear line where it was built for another torch than the one installed."""
    try:
        import torchvision
    except (ImportError, RuntimeError) as error:
        raise BasslError(
            "torchvision does not fit the torch that is installed; install a pair that was built together: "
            f"pip install --upgrade torch torchvision ({first_line(error)})"
        ) from error
    return torchvision  # type: ignore[no-any-return]
