"""Import of checkpoints in the layout of the paper's release.

A released checkpoint is a PyTorch Lightning checkpoint: a pickle in a zip archive, with the weights under
``state_dict`` and the state of the trainer beside it. Its parameter names differ from ours by prefixes only:

    shot_encoder.NAME    encoder NAME    torchvision's names of a ResNet-50, no fc
    crn.NAME             crn NAME
    loss.head_X.NAME     head_X.NAME     pre-trained
    head_sbd.NAME        head_sbd.NAME   fine-tuned

It also has the buffers ``crn.shot_embedding.pos_ids`` (0 to 2K+1) and ``crn.attention_mask`` (zeros), which follow
from K, and a second name for the bias of the MSM head's last layer. Three of the five published checkpoints (SimCLR)
have no CRN: encoder and CRN may each be missing as a whole, but not in part.

No code in a file is executed: it is read with `torch.load` and ``weights_only=True``, which allows tensors and plain
containers. The release's files also contain classes of the trainer's callbacks and settings, which that mode refuses.
Classes of such packages are replaced by empty placeholders; a file with any other class is refused.
"""

from __future__ import annotations

import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from pipelines.errors import StoreError, first_line, printable
from pipelines.files import check_regular, os_errors
from pipelines.models.bassl import BOUNDARY_HEAD, PARTS, BasslSettings, BasslWeights, crn_shapes
from pipelines.models.encoders.torch_encoders import torchvision_resnet50
from pipelines.models.networks.kinds import CRNSettings

HEADS = 8  # attention heads of a released CRN. Not determined by the weights (paper, appendix A).
RESNET50_WIDTH = 2048
LONGEST_NAME = 200
_MSM_BIAS = "loss.head_msm.predictions.decoder.bias"
_MSM_BIAS_AGAIN = "loss.head_msm.predictions.bias"  # BERT's implementation registers this bias twice

# Packages of trainers and of the settings that they save, whose classes are replaced by placeholders, and other classes
# that objects of these packages contain.
_TRAINER_PACKAGES = {"pytorch_lightning", "lightning", "lightning_fabric", "omegaconf", "easydict"}
_TRAINER_NAMES = {
    "argparse.Namespace",
    "collections.defaultdict",
    "typing.Any",
    # Python 3.13 has the classes of paths in pathlib._local.
    *(f"pathlib{module}.{name}" for module in ("", "._local") for name in ("Path", "PosixPath", "WindowsPath")),
    *(f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "str", "tuple")),
}


def read_released(path: Path) -> BasslWeights:
    """Read a released checkpoint, pre-trained or fine-tuned.

    K and all widths are taken from the weights; half precision becomes single precision. Raises StoreError as
    `read_state_dict`, or if the weights are not in the layout of the release; the message names missing, extra or wrong
    weights.
    """
    state = {
        name: t.float() if t.dtype in (torch.float16, torch.bfloat16) else t
        for name, t in read_state_dict(path).items()
    }
    again = state.pop(_MSM_BIAS_AGAIN, None)
    try:
        if again is not None and not torch.equal(state.setdefault(_MSM_BIAS, again), again):
            raise ValueError(f"{_MSM_BIAS_AGAIN} and {_MSM_BIAS} differ")
        settings = _crn_settings(state) if any(name.startswith("crn.") for name in state) else None
        for name, values in _buffers(settings).items():
            if state.pop(name, values).flatten().tolist() != values.flatten().tolist():
                raise ValueError(f"{name} is not that of a CRN with {settings and settings.neighbors} neighbors")
        _check_layout(state, settings)
    except ValueError as error:
        raise StoreError(f"{path}: not in the layout of the paper's release: {error}") from error
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in PARTS}
    for name, tensor in state.items():
        first, _, rest = name.partition(".")
        part = {"shot_encoder": "encoder", "crn": "crn"}.get(first, "heads")
        parts[part][name.removeprefix("loss.") if part == "heads" else rest] = tensor
    return BasslWeights(BasslSettings("resnet50" if parts["encoder"] else None, settings), **parts)


# --- the file ---------------------------------------------------------------------------------------------------------


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read the tensors under ``state_dict`` of a checkpoint of PyTorch Lightning, on the CPU. Nothing in the file is
    run. Raises StoreError: the file is missing, damaged or not a checkpoint, or reading it would run code."""
    _check_archive(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about other versions of pickle
            classes = sorted(get_unsafe_globals_in_checkpoint(path))
            code = [c for c in classes if c.partition(".")[0] not in _TRAINER_PACKAGES and c not in _TRAINER_NAMES]
            if not code:
                # Instances are empty dictionaries: torch sets items and attributes of these, which settings need.
                new: dict[str, Any] = {"__new__": lambda cls, *_: OrderedDict()}
                # Mapped, so that the state of the optimizer, as large as the weights, is not read.
                with safe_globals([(type("Placeholder", (), new), name) for name in classes]):
                    checkpoint = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except Exception as error:  # a forged pickle can make torch raise anything
        reason = printable(first_line(error), 200)
        raise StoreError(
            f"{path}: not a checkpoint of weights that PyTorch can read ({reason}); get the file again"
        ) from error
    if code:
        names = ", ".join(ascii(name)[:LONGEST_NAME] for name in code[:3]) + (", ..." if len(code) > 3 else "")
        raise StoreError(
            f"{path}: contains more than weights: reading it would run code ({names}); "
            "if you trust it, save its state_dict alone, or get another file"
        )
    plain = (dict, OrderedDict)  # exactly these: a subclass may have methods of its own
    state: Any = checkpoint["state_dict"] if type(checkpoint) in plain and "state_dict" in checkpoint else None
    if type(state) not in plain:
        raise StoreError(f"{path}: has no 'state_dict' with weights; name a checkpoint of PyTorch Lightning")
    tensors = {}
    for name, value in dict.items(state):  # an OrderedDict may carry attributes, even a false `items`
        is_name = isinstance(name, str) and name.isprintable() and len(name) <= LONGEST_NAME  # for messages
        if not is_name or (tensor := _plain_copy(value)) is None:
            entry = ascii(name)[:LONGEST_NAME]
            raise StoreError(f"{path}: {entry} in its state_dict is not a plain tensor with a name; get the file again")
        tensors[name] = tensor
    return tensors


def _check_archive(path: Path) -> None:
    """Refuse a file that is not a complete zip archive. torch itself does not check the checksums."""
    check_regular(path, kind=StoreError)
    try:
        with os_errors(path, kind=StoreError), path.open("rb") as file:
            start = file.read(4)
        if start[:2] == b"\x1f\x8b":
            raise StoreError(f"{path}: is an archive; unpack it (tar -xf) and name the .ckpt file inside")
        with zipfile.ZipFile(path) as archive:
            if start != b"PK\x03\x04":
                raise zipfile.BadZipFile("something before the archive")
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise StoreError(f"{path}: not a PyTorch checkpoint but another kind of zip archive; name a .ckpt file")
            if archive.testzip() is not None:
                raise StoreError(f"{path}: damaged, a checksum in it is wrong; get the file again")
    except StoreError:
        raise
    except Exception as error:  # zipfile raises a dozen kinds for an invalid header
        raise StoreError(f"{path}: not a PyTorch checkpoint, or truncated; get the file again") from error


def _plain_copy(value: object) -> Tensor | None:
    """Return a copy of a plain dense tensor that shares memory with nothing; None for anything else."""
    if type(value) not in (Tensor, nn.Parameter) or not isinstance(value, Tensor) or vars(value):
        return None
    if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
        return None
    # With strides of 0, a few bytes can be a tensor of any size.
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        return None
    return value.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


# --- the layout, by the names in a released checkpoint ----------------------------------------------------------------


def _crn_settings(state: Mapping[str, Tensor]) -> CRNSettings:
    """Return the shape of a CRN from its weights. Raises ValueError if they have none."""
    ends = ("shot_embedding.position_embedding", "shot_embedding.mask_embedding", "encoder.layer.0.intermediate.dense")
    shapes = []
    for name in (f"crn.{end}.weight" for end in ends):
        if name not in state:
            raise ValueError(f"{name} is missing")
        shapes.append(tuple(state[name].shape))
        if len(shapes[-1]) != 2:
            raise ValueError(f"{name} is {shapes[-1]}, not a matrix")
    (places, width), (_, input_width), (hidden, _) = shapes
    if places < 4 or places % 2:
        raise ValueError(f"crn.{ends[0]}.weight has {places} rows, not 2K+2")
    layers = len({name.split(".")[3] for name in state if name.startswith("crn.encoder.layer.")})
    return CRNSettings(places // 2 - 1, input_width, width, layers, HEADS, hidden)


def _buffers(crn: CRNSettings | None) -> dict[str, Tensor]:
    """Return the buffers of a released CRN, which follow from K."""
    if crn is None:
        return {}
    places = crn.window + 1
    return {
        "crn.shot_embedding.pos_ids": torch.arange(places),
        "crn.attention_mask": torch.zeros(1, 1, 1, places),
    }


def _check_layout(state: Mapping[str, Tensor], crn: CRNSettings | None) -> None:
    """Raise ValueError if weights do not fit the layout of the release."""
    heads = {name.removeprefix("loss.").split(".")[0] for name in state if name.startswith(("loss.head_", "head_sbd."))}
    has_encoder = any(name.startswith("shot_encoder.") for name in state)
    if not heads:
        raise ValueError(f"neither loss.head_* nor {BOUNDARY_HEAD}, so neither pre-trained nor fine-tuned")
    if not has_encoder and crn is None:
        raise ValueError("neither shot_encoder.* nor crn.*")
    if crn is None and heads != {"head_nce"}:
        raise ValueError(f"{min(heads - {'head_nce'})} is there without a CRN")
    D_e, D_c = (RESNET50_WIDTH, 0) if crn is None else (crn.input_width, crn.width)
    if has_encoder and D_e != RESNET50_WIDTH:
        raise ValueError(f"crn.* takes encodings of width {D_e}, a ResNet-50 returns {RESNET50_WIDTH}")
    # Only the two widths of the NCE head (2048 and 128) do not follow from other weights.
    hidden, out = (
        state[name].shape[0] if name in state and state[name].ndim else default
        for name, default in (("loss.head_nce.model.0.weight", 2048), ("loss.head_nce.model.2.weight", 128))
    )
    layers = {
        "loss.head_nce.model.0": (hidden, D_e),
        "loss.head_nce.model.2": (out, hidden),
        "loss.head_pp": (2, D_c),
        "loss.head_cgm": (2, 2 * D_c),
        "loss.head_msm.predictions.transform.dense": (D_c, D_c),
        "loss.head_msm.predictions.transform.LayerNorm": (D_c,),
        "loss.head_msm.predictions.decoder": (D_e, D_c),
        BOUNDARY_HEAD: (2, D_c),
    }
    shapes: dict[str, tuple[int, ...]] = {}
    if has_encoder:
        with torch.device("meta"):
            resnet = torchvision_resnet50()
        shapes |= {f"shot_encoder.{name}": tuple(values.shape) for name, values in resnet.state_dict().items()}
    shapes |= {} if crn is None else {f"crn.{name}": shape for name, shape in crn_shapes(crn).items()}
    for name, shape in layers.items():
        if name.removeprefix("loss.").split(".")[0] in heads:
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    _check_shapes(state, shapes)


def _check_shapes(weights: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError with the first differences between weights and the shapes that they need."""
    faults = []
    for name, tensor in weights.items():
        dtype = torch.int64 if name.endswith("num_batches_tracked") else torch.float32
        if name not in shapes:
            faults.append(f"{name} does not belong there")
        elif tuple(tensor.shape) != shapes[name]:
            faults.append(f"{name} is {tuple(tensor.shape)}, not {shapes[name]}")
        elif tensor.dtype != dtype:
            faults.append(f"{name} is of {tensor.dtype}, not {dtype}")
        elif not torch.isfinite(tensor).all():
            faults.append(f"{name} contains values that are not finite")
    faults += [f"{name} is missing" for name in shapes if name not in weights]
    if faults:
        raise ValueError("; ".join(faults[:6]) + (f"; and {len(faults) - 6} more" if len(faults) > 6 else ""))
