"""Import and export of checkpoints in the layout of the paper's release, and import of torchvision's ResNet-50.

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

import io
import warnings
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from pipelines.errors import BasslError, StoreError, first_line, printable
from pipelines.files import os_reason, write_atomically
from pipelines.models.bassl import BOUNDARY_HEAD, BasslSettings, BasslWeights, crn_shapes
from pipelines.models.encoders.image_networks import import_torchvision
from pipelines.models.networks.kinds import CRNSettings

RELEASED_HEADS = 8  # Attention heads of a released CRN. Not determined by the weights (paper, appendix A).
RESNET50_WIDTH = 2048
LONGEST_NAME = 200

_POSITIONS = "shot_embedding.pos_ids"
_ATTENTION_MASK = "attention_mask"
_MSM_BIAS = "head_msm.predictions.decoder.bias"
_MSM_BIAS_AGAIN = "head_msm.predictions.bias"  # BERT's implementation registers this bias twice

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

Shapes = dict[str, tuple[int, ...]]


def read_released(path: Path) -> BasslWeights:
    """Read a released checkpoint, pre-trained or fine-tuned.

    K and all widths are taken from the weights; half precision becomes single precision. Raises StoreError as
    `read_state_dict`, or if the weights are not in the layout of the release; the message names missing, extra or wrong
    weights.
    """
    tensors = read_state_dict(path)
    parts: dict[str, dict[str, Tensor]] = {"encoder": {}, "crn": {}, "heads": {}}
    strange = []
    for name, tensor in tensors.items():
        place = _our_place(name)
        if place is None:
            strange.append(f"{name} does not belong there")
        else:
            parts[place[0]][place[1]] = tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
    encoder, crn, heads = parts.values()
    faults = [] if tensors else ["it has no weights"]
    derived = {name: crn.pop(name) for name in (_POSITIONS, _ATTENTION_MASK) if name in crn}
    if _MSM_BIAS_AGAIN in heads:
        again = heads.pop(_MSM_BIAS_AGAIN)
        if not torch.equal(heads.setdefault(_MSM_BIAS, again), again):
            faults.append(f"loss.{_MSM_BIAS_AGAIN} and loss.{_MSM_BIAS} differ")
    settings = None
    if crn:
        settings, unfit = _crn_settings(crn)
        faults += unfit
        if settings is not None:
            places = torch.arange(settings.window + 1)
            if not torch.equal(derived.get(_POSITIONS, places).flatten(), places):
                faults.append(f"crn.{_POSITIONS} is not 0 to {len(places) - 1}")
            if _ATTENTION_MASK in derived and derived[_ATTENTION_MASK].count_nonzero():
                faults.append(f"crn.{_ATTENTION_MASK} is not zero")
    elif derived:
        faults += [f"crn.{name} is there without a CRN" for name in derived]
    weights = BasslWeights(BasslSettings("resnet50" if encoder else None, settings), encoder, crn, heads)
    if not faults:
        faults = _layout_faults(weights) + strange
    if faults:
        raise StoreError(f"{path}: not in the layout of the paper's release: {_some(faults)}")
    return weights


def write_released(path: Path, weights: BasslWeights) -> None:
    """Write a model in the layout of the release: a `torch.save` file with plain tensors under ``state_dict``. An
    encoder without weights of its own (frozen while its CRN was trained) is left out. Raises BasslError: the model does
    not fit the layout, or the file cannot be written."""
    faults = _layout_faults(weights)
    settings = weights.settings.crn
    if settings is not None and settings.heads != RELEASED_HEADS:
        faults.append(f"its CRN has {settings.heads} attention heads, not {RELEASED_HEADS}")
    if faults:
        raise BasslError(f"{path}: the model does not fit the layout of the paper's release: {_some(faults)}")
    state: OrderedDict[str, Tensor] = OrderedDict()
    for part in ("encoder", "crn", "heads"):
        for name, tensor in getattr(weights, part).items():
            state[_released_name(part, name)] = tensor.detach().cpu().contiguous().clone()
    if settings is not None:
        places = settings.window + 1
        state[f"crn.{_POSITIONS}"] = torch.arange(places)
        state[f"crn.{_ATTENTION_MASK}"] = torch.zeros(1, 1, 1, places)
    if _MSM_BIAS in weights.heads:
        state[f"loss.{_MSM_BIAS_AGAIN}"] = state[f"loss.{_MSM_BIAS}"].clone()
    content = io.BytesIO()
    torch.save({"state_dict": state}, content)
    write_atomically(path, content.getvalue())


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
    weights = {name.removeprefix("module."): value for name, value in state.items()}  # nn.DataParallel's prefix
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


# --- the file ---------------------------------------------------------------------------------------------------------


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """The tensors under ``state_dict`` of a checkpoint of PyTorch Lightning, on the CPU. Nothing in the file is run.
    Raises StoreError: the file is missing, damaged or not a checkpoint, or reading it would run code."""
    _check_archive(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about other versions of pickle
            others = sorted(get_unsafe_globals_in_checkpoint(path))
            code = [
                name
                for name in others
                if name.partition(".")[0] not in _TRAINER_PACKAGES and name not in _TRAINER_NAMES
            ]
            if not code:
                # Mapped, so that the state of the optimizer, as large as the weights, is not read.
                with safe_globals([(_stand_in(), name) for name in others]):
                    checkpoint = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except Exception as error:  # a forged pickle can make torch raise anything
        raise StoreError(
            f"{path}: not a checkpoint of weights that PyTorch can read ({printable(first_line(error), 200)}); "
            "get the file again"
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
        if not is_name or (tensor := _own_copy(value)) is None:
            shown = ascii(name)[:LONGEST_NAME]
            raise StoreError(f"{path}: {shown} in its state_dict is not a plain tensor with a name; get the file again")
        tensors[name] = tensor
    return tensors


def _check_archive(path: Path) -> None:
    """Refuse a file that is not a complete zip archive. torch itself does not check the checksums."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start[:2] == b"\x1f\x8b":
            raise StoreError(f"{path}: is an archive; unpack it (tar -xf) and name the .ckpt file inside")
        if start != b"PK\x03\x04":
            raise StoreError(f"{path}: not a PyTorch checkpoint, or damaged; get the file again")
        with zipfile.ZipFile(path) as archive:
            packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist())
            damaged = None if packed else archive.testzip()
    except FileNotFoundError as error:
        raise StoreError(f"{path}: no such checkpoint; check the path") from error
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({os_reason(error)})") from error
    except StoreError:
        raise
    except Exception as error:  # zipfile raises a dozen kinds for an invalid header
        raise StoreError(f"{path}: not a PyTorch checkpoint, or truncated; get the file again") from error
    if packed:
        raise StoreError(f"{path}: not a PyTorch checkpoint but another kind of zip archive; name the .ckpt file")
    if damaged is not None:
        raise StoreError(f"{path}: damaged, a checksum in it is wrong; get the file again")


def _stand_in() -> type:
    """A placeholder class for a name in a pickle: its instances are empty dictionaries, because torch's reader can set
    items and attributes of these, which settings objects need."""

    def new(cls: type, *_: object) -> OrderedDict[object, object]:
        return OrderedDict()

    return type("StandIn", (), {"__new__": new})


def _own_copy(value: object) -> Tensor | None:
    """A copy of a plain dense tensor that shares memory with nothing; None for anything else."""
    if type(value) not in (Tensor, nn.Parameter) or not isinstance(value, Tensor) or vars(value):
        return None
    if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
        return None
    # With strides of 0, a few bytes can be a tensor of any size.
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        return None
    return value.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


# --- the layout -------------------------------------------------------------------------------------------------------


def _our_place(name: str) -> tuple[str, str] | None:
    """Our part and name for a weight of the release; None for a name that the release does not have."""
    for prefix, part in (("shot_encoder.", "encoder"), ("crn.", "crn")):
        if name.startswith(prefix):
            return part, name.removeprefix(prefix)
    if name.startswith("loss.head_"):
        return "heads", name.removeprefix("loss.")
    return ("heads", name) if name.startswith(f"{BOUNDARY_HEAD}.") else None


def _released_name(part: str, name: str) -> str:
    """The release's name of a weight of ours."""
    if part == "heads":
        return name if name.startswith(f"{BOUNDARY_HEAD}.") else f"loss.{name}"
    return f"{'shot_encoder' if part == 'encoder' else part}.{name}"


def _crn_settings(crn: Mapping[str, Tensor]) -> tuple[CRNSettings | None, list[str]]:
    """The shape of a CRN from its weights, or None and what is wrong with them."""
    names = {
        "positions": "shot_embedding.position_embedding.weight",
        "masks": "shot_embedding.mask_embedding.weight",
        "mlp": "encoder.layer.0.intermediate.dense.weight",
    }
    shapes = {key: tuple(crn[name].shape) for key, name in names.items() if name in crn}
    faults = [f"crn.{name} is missing" for key, name in names.items() if key not in shapes]
    faults += [f"crn.{names[key]} is {shape}, not a matrix" for key, shape in shapes.items() if len(shape) != 2]
    if faults:
        return None, faults
    places, width = shapes["positions"]
    if places < 4 or places % 2:
        return None, [f"crn.{names['positions']} has {places} rows, not 2K+2"]
    layers = {name.split(".")[2] for name in crn if name.startswith("encoder.layer.")}
    try:
        settings = CRNSettings(
            neighbors=places // 2 - 1,
            input_width=shapes["masks"][1],
            width=width,
            layers=len(layers),
            heads=RELEASED_HEADS,
            hidden=shapes["mlp"][0],
        )
    except ValueError as error:
        return None, [str(error)]
    return settings, []


def _layout_faults(weights: BasslWeights) -> list[str]:
    """Why weights do not fit the layout of the release, with their names in the release."""
    crn = weights.settings.crn
    faults = []
    if not weights.heads:
        faults.append(f"neither loss.head_* nor {BOUNDARY_HEAD}, so neither pre-trained nor fine-tuned")
    if not weights.encoder and not weights.crn:
        faults.append("neither shot_encoder.* nor crn.*")
    if crn is None and set(weights.head_names) - {"head_nce"}:
        faults.append(f"{_released_name('heads', weights.head_names[0])} is there without a CRN")
    if weights.encoder and crn is not None and crn.input_width != RESNET50_WIDTH:
        faults.append(f"crn.* takes encodings of width {crn.input_width}, a ResNet-50 returns {RESNET50_WIDTH}")
    if faults:
        return faults
    expected = {
        "encoder": resnet50_shapes() if weights.encoder else {},
        "crn": crn_shapes(crn) if crn is not None else {},
        "heads": _head_shapes(weights.heads, crn),
    }
    for part, shapes in expected.items():
        faults += _part_faults(part, getattr(weights, part), shapes)
    return faults


def _part_faults(part: str, tensors: Mapping[str, Tensor], shapes: Shapes) -> list[str]:
    faults = [f"{_released_name(part, name)} is missing" for name in shapes if name not in tensors]
    for name, tensor in tensors.items():
        shown = _released_name(part, name)
        dtype = torch.int64 if name.endswith("num_batches_tracked") else torch.float32
        if name not in shapes:
            faults.append(f"{shown} does not belong there")
        elif tuple(tensor.shape) != shapes[name]:
            faults.append(f"{shown} is {tuple(tensor.shape)}, not {shapes[name]}")
        elif tensor.dtype != dtype:
            faults.append(f"{shown} is of {tensor.dtype}, not {dtype}")
        elif not torch.isfinite(tensor).all():
            faults.append(f"{shown} contains values that are not finite")
    return faults


def _head_shapes(heads: Mapping[str, Tensor], crn: CRNSettings | None) -> Shapes:
    """Names and shapes of the weights of the heads that are present."""
    present = {name.split(".")[0] for name in heads}
    D_e = RESNET50_WIDTH if crn is None else crn.input_width
    D_c = 0 if crn is None else crn.width
    # Only the two widths of the NCE head (2048 and 128) do not follow from other weights.
    hidden, out = (
        heads[name].shape[0] if name in heads and heads[name].ndim else default
        for name, default in (("head_nce.model.0.weight", 2048), ("head_nce.model.2.weight", 128))
    )
    linear = {
        "head_nce.model.0": (hidden, D_e),
        "head_nce.model.2": (out, hidden),
        "head_pp": (2, D_c),
        "head_cgm": (2, 2 * D_c),
        "head_msm.predictions.transform.dense": (D_c, D_c),
        "head_msm.predictions.decoder": (D_e, D_c),
        BOUNDARY_HEAD: (2, D_c),
    }
    shapes: Shapes = {}
    for name, (rows, columns) in linear.items():
        if name.split(".")[0] in present:
            shapes |= {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}
    if "head_msm" in present:
        shapes |= {f"head_msm.predictions.transform.LayerNorm.{name}": (D_c,) for name in ("weight", "bias")}
    return shapes


def resnet50_shapes() -> Shapes:
    """Names and shapes of torchvision's ResNet-50 without its classifier."""
    with torch.device("meta"):
        network = import_torchvision().models.resnet50()
    return {name: tuple(value.shape) for name, value in network.state_dict().items() if not name.startswith("fc.")}


def _some(faults: Iterable[str]) -> str:
    """Faults in one line: at most two of each kind (the text after the name), and how many more there are."""
    shown: list[str] = []
    kinds: Counter[str] = Counter()
    more = 0
    for fault in faults:
        kind = fault.partition(" ")[2]
        if kinds[kind] < 2 and len(shown) < 6:
            kinds[kind] += 1
            shown.append(fault)
        else:
            more += 1
    return "; ".join(shown) + (f"; and {more} more" if more else "")
