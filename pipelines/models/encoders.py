"""Shot encoders f_ENC: the key-frames of a shot to one vector, the mean over its key-frames (paper, appendix A)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from types import ModuleType

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import BasslError, first_line
from pipelines.models.efficientnet_lite import load_efficientnet_lite0

DEFAULT_ENCODER = "efficientnet_lite0"

# Six to eight pictures at a time: more would leave the caches of a CPU and gain nothing.
BATCH_PICTURES = 6


@dataclass(frozen=True)
class ShotEncoder:
    """A frozen image network with the preparation that its weights expect.

    Attributes:
        name: as on the command line.
        network: (B, 3, size, size) to (B, D_e).
        size: side of its square input in pixels.
        mean, std: of the input's channels, on the scale of 0 to 255.
        device, dtype: where and in what precision it runs.
    """

    name: str
    network: nn.Module
    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    device: torch.device
    dtype: torch.dtype

    def prepare(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """A picture (H, W, 3) at the network's input size. The whole picture is kept, squeezed to a square."""
        return resize_to_square(picture, self.size)

    def encode(self, shots: Sequence[Sequence[NDArray[np.uint8]]]) -> NDArray[np.float32]:
        """Encode shots.

        Args:
            shots: for each shot its N_k prepared key-frames, (size, size, 3) uint8 RGB.

        Returns:
            (len(shots), D_e) float32: for each shot the mean over its key-frames.
        """
        pictures = torch.from_numpy(np.stack([picture for shot in shots for picture in shot]))
        with torch.inference_mode():
            features = torch.cat([self._features(batch) for batch in torch.split(pictures, BATCH_PICTURES)])
            counts = [len(shot) for shot in shots]
            means = [part.mean(dim=0) for part in torch.split(features, counts)]
        return np.asarray(torch.stack(means).cpu().numpy(), np.float32)

    def _features(self, pictures: Tensor) -> Tensor:
        # (B, H, W, 3) seen as (B, 3, H, W) is channels-last already, the layout that convolutions like best.
        x = pictures.to(self.device).permute(0, 3, 1, 2).float()
        mean, std = (torch.tensor(v, device=self.device).view(1, 3, 1, 1) for v in (self.mean, self.std))
        x = ((x - mean) / std).to(self.dtype, memory_format=torch.channels_last)
        features: Tensor = self.network(x)
        return features.float()


def resize_to_square(picture: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """A picture (H, W, 3) squeezed or stretched to (size, size, 3)."""
    # Below a factor of two bilinear interpolation sees nearly every pixel, at a quarter of the time of a true mean.
    how = cv2.INTER_AREA if max(picture.shape[:2]) > 2 * size else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, (size, size), interpolation=how), np.uint8)


def load_encoder(name: str = DEFAULT_ENCODER, device: str = "auto") -> ShotEncoder:
    """The shot encoder called ``name``, ready to run.

    Args:
        name: ``efficientnet_lite0`` (ImageNet weights from a package, needs no network), ``resnet50`` (torchvision's
            ImageNet weights, downloaded once) or ``timm:NAME`` (any model of timm, downloaded once).
        device: ``auto`` (a GPU where there is one), ``cpu``, ``cuda``, ``cuda:1``, ...

    Raises:
        BasslError: one line, for an unknown name or device, or weights that cannot be downloaded.
    """
    place = choose_device(device)
    network: nn.Module
    if name == "efficientnet_lite0":
        # Trained on (x - 127) / 128, as all EfficientNet-Lite weights.
        network, size, mean, std = load_efficientnet_lite0(), 224, (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)
    elif name == "resnet50":
        network, size, mean, std = _load_resnet50()
    elif name.startswith("timm:"):
        network, size, mean, std = _load_timm(name.removeprefix("timm:"))
    else:
        raise BasslError(f"no encoder is called {name!r}; there are efficientnet_lite0, resnet50 and timm:NAME")
    dtype = _fastest_dtype(place)
    network = network.eval().requires_grad_(False).to(place, dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return ShotEncoder(name, network, size, mean, std, place, dtype)


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


@contextmanager
def half_of_the_cores() -> Iterator[None]:
    """Leave the other half to the process that decodes: threads that wait for a core in turns cost many times more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, threads // 2))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _fastest_dtype(device: torch.device) -> torch.dtype:
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    if device.type == "cpu" and (_cpu_has("avx512_bf16") or _cpu_has("amx_tile")):
        return torch.bfloat16
    return torch.float32  # elsewhere bf16 is emulated and slower


def _cpu_has(feature: str) -> bool:
    check: Callable[[], bool] | None = getattr(torch.cpu, f"_is_{feature}_supported", None)
    return check is not None and bool(check())


_Loaded = tuple[nn.Module, int, tuple[float, float, float], tuple[float, float, float]]
_IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))


def _load_resnet50() -> _Loaded:
    models = import_torchvision().models
    try:
        with redirect_stdout(sys.stderr):  # torch prints where the weights come from; results have stdout to themselves
            network = models.resnet50(weights=models.ResNet50_Weights.IMAGENET1K_V1, progress=False)
    except (OSError, RuntimeError) as error:
        raise BasslError(f"the weights of resnet50 cannot be downloaded ({first_line(error)})") from error
    network.fc = nn.Identity()
    return network, 224, *_IMAGENET


def _load_timm(name: str) -> _Loaded:
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
    mean, std = (tuple(255.0 * float(v) for v in config[key]) for key in ("mean", "std"))
    return network, int(config["input_size"][-1]), mean, std  # type: ignore[return-value]


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
