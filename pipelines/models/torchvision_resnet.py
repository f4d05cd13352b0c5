"""Checkpoints of torchvision's ResNet-50 with other weights than torchvision's, such as Places365."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipelines.errors import StoreError
from pipelines.models.bassl import BasslSettings, BasslWeights
from pipelines.models.released import resnet50_shapes

_PARALLEL = "module."  # nn.DataParallel's prefix of every name


def read_torchvision_resnet(path: Path) -> BasslWeights | None:
    """The encoder of a checkpoint of a ResNet-50 under torchvision's names, alone or in ``state_dict``, with no last
    layer; None for another file. Weights for Places365 (Zhou et al. 2018) are published in this form. No code in the
    file is run. Raises StoreError if the weights do not fit a ResNet-50, or are not finite."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about old files
            content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # a pickle can make torch raise anything; the next reader reports it
        return None
    state = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        return None
    weights = {name.removeprefix(_PARALLEL): value for name, value in state.items()}
    if not {"conv1.weight", "fc.weight", "layer1.0.conv1.weight"} <= weights.keys():
        return None
    own = {name: value for name, value in weights.items() if not name.startswith("fc.")}
    expected = resnet50_shapes()
    # Files from before 2018 lack the counters of batches, which have no effect.
    counters = {name for name in expected if name.endswith("num_batches_tracked")}
    for name in counters - own.keys():
        own[name] = torch.zeros((), dtype=torch.int64)
    strange = sorted(own.keys() ^ expected.keys()) or sorted(
        name for name, value in own.items() if not isinstance(value, Tensor) or tuple(value.shape) != expected[name]
    )
    if strange:
        raise StoreError(f"{path}: its weights do not fit a ResNet-50 ({strange[0]})")
    if not all(torch.isfinite(value).all() for value in own.values()):
        raise StoreError(f"{path}: contains weights that are not finite; get the file again")
    plain = {
        name: (value.float() if value.is_floating_point() else value).detach().clone() for name, value in own.items()
    }
    return BasslWeights(BasslSettings("resnet50", None), plain, {}, {})
