"""The weights of the paper's model in one file: shot encoder, contextual relation network and heads; and others' files.

Pre-training writes such a file. Fine-tuning starts from it and writes one with the head that predicts scene ends. A
checkpoint of the paper's release, or of a ResNet-50, is converted to it.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from pipelines.errors import StoreError, printable
from pipelines.files import check_regular
from pipelines.models.boundary import BoundaryModel
from pipelines.models.checkpoints import part_of, read_arrays, save_model, settings_fit
from pipelines.models.encoders import INPUT_SIZE
from pipelines.models.encoders.torch_encoders import torch_encoder, trainable_encoder
from pipelines.models.networks import CRNSettings
from pipelines.models.networks.torch_networks import (
    ContextualRelationNetwork,
    TransformerBoundary,
    tensors_of,
    with_weights,
)

KIND = "bassl"
PARTS = ("encoder", "crn", "heads")
BOUNDARY_HEAD = "head_sbd"  # the head of fine-tuning, Linear(D_c, 2) on the center shot; class 1 is a scene end


@dataclass(frozen=True)
class BasslSettings:
    """Everything except the weights that is needed to build the model again."""

    encoder: str | None = "resnet50"  # name of the shot encoder on the command line; None if unknown
    # shape of the contextual relation network; None for a method that trains the encoder alone (SimCLR)
    crn: CRNSettings | None = field(default_factory=CRNSettings)


@dataclass(frozen=True, eq=False)
class BasslWeights:
    """The paper's model as plain tensors by name."""

    settings: BasslSettings
    # the shot encoder, with torchvision's names (without ``fc``) for a ResNet-50; empty if it was frozen
    encoder: dict[str, Tensor] = field(repr=False)
    # the state dict of `ContextualRelationNetwork`; empty if `settings.crn` is None
    crn: dict[str, Tensor] = field(repr=False)
    heads: dict[str, Tensor] = field(repr=False)  # with the names of the release: ``head_pp.bias``, ...
    # how the weights were trained, as plain JSON values; for information, except the input size
    training: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def finetuned(self) -> bool:
        """Return whether it has the head that predicts scene ends."""
        return f"{BOUNDARY_HEAD}.weight" in self.heads

    @property
    def input_size(self) -> int:
        """Return the side of the encoder's input: that of the keyframes in pre-training, or else the paper's."""
        augmentation = self.training.get("augmentation")
        size = augmentation.get("size") if isinstance(augmentation, dict) else None
        return size if isinstance(size, int) else INPUT_SIZE

    @property
    def head_names(self) -> list[str]:
        """Return the names of the heads, sorted, such as ``head_cgm``."""
        return sorted({name.split(".")[0] for name in self.heads})


# --- our files --------------------------------------------------------------------------------------------------------


def save_bassl_model(path: Path, weights: BasslWeights) -> None:
    """Write a model as one safetensors file, atomically. Raises BasslError: the file cannot be written."""
    tensors = {f"{part}.{name}": tensor for part in PARTS for name, tensor in getattr(weights, part).items()}
    save_model(path, tensors, KIND, {**asdict(weights.settings), "training": weights.training})


def load_bassl_model(path: Path) -> BasslWeights:
    """Read a model that `save_bassl_model` wrote. Raises StoreError as `read_arrays` and `settings_fit`."""
    arrays, stored = read_arrays(path, KIND)
    tensors = tensors_of(arrays)
    with settings_fit(path):
        settings = msgspec.convert(stored, BasslSettings)
        parts = {part: part_of(tensors, part) for part in PARTS}
        weights = BasslWeights(settings, **parts, training=msgspec.convert(stored["training"], dict[str, Any]))
        if settings.crn is not None:
            with_weights(partial(ContextualRelationNetwork, settings.crn), weights.crn)  # which checks that they fit
    return weights


def boundary_of_weights(path: Path, weights: BasslWeights, head: str = BOUNDARY_HEAD) -> BoundaryModel:
    """Return the paper's model, which has a CRN, as a `BoundaryModel` by one of its heads, Linear(D_c, 2) on the center
    shot. Raises StoreError, which names the file ``path``, if the weights of head or encoder do not fit."""
    shape, name = weights.settings.crn, weights.settings.encoder
    assert shape is not None
    tensors = {f"crn.{name}": tensor for name, tensor in weights.crn.items()}
    tensors |= {f"{BOUNDARY_HEAD}.{name}": tensor for name, tensor in part_of(weights.heads, head).items()}
    with settings_fit(path):
        network = with_weights(partial(TransformerBoundary, shape), tensors)
    encoder = None
    if name is not None and weights.encoder:
        encoder = torch_encoder(name, weights.encoder, "cpu", file=path, size=weights.input_size)
    return BoundaryModel(
        crn="transformer",
        network=network,
        shape=shape,
        encoder=encoder.id if encoder else name,
        encoder_name=name,
        encoder_weights=weights.encoder,
        input_size=encoder.size if encoder else None,
        preparation=encoder.preparation if encoder else None,
        training=weights.training,
    )


# --- checkpoints of others --------------------------------------------------------------------------------------------

_RELEASED = ("shot_encoder.", "crn.", "loss.head_", f"{BOUNDARY_HEAD}.")
_RESNET50 = {"conv1.weight", "fc.weight", "layer1.0.conv1.weight"}  # among torchvision's names
_HEADS = 8  # attention heads of a released CRN. Not determined by the weights (paper, appendix A).
_MSM_BIAS, _MSM_BIAS_AGAIN = (f"loss.head_msm.predictions.{name}" for name in ("decoder.bias", "bias"))
_DTYPES = {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64}
# Classes of trainers and of the settings that they save, which become placeholders, and what objects of these contain.
_TRAINER_CLASSES = re.compile(
    r"(pytorch_lightning|lightning|lightning_fabric|omegaconf|easydict)\..*"
    r"|argparse\.Namespace|collections\.defaultdict|typing\.Any|pathlib(\._local)?\.(Posix|Windows)?Path"
    r"|builtins\.(bool|dict|float|int|list|str|tuple)"
)


def read_checkpoint(path: Path) -> BasslWeights:
    """Read a checkpoint of the paper's release, pre-trained or fine-tuned, or the weights of a ResNet-50 under
    torchvision's names, such as those for Places365 (Zhou et al. 2018).

    The weights are alone in the file or under ``state_dict``, as PyTorch Lightning writes them. Encoder and CRN may
    each be missing as a whole, as the CRN in three of the five published ones (SimCLR). K and all widths are taken from
    the weights; those of heads are checked when they are used. Raises StoreError: the file is missing, damaged or not
    such a checkpoint, its weights do not fit or are not finite, or reading it would run code.
    """
    state = _plain_tensors(path, _checkpoint_state(path))
    state = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    try:
        if state.keys() >= _RESNET50:
            encoder = _resnet50({name: tensor for name, tensor in state.items() if not name.startswith("fc.")})
            return BasslWeights(BasslSettings("resnet50", None), encoder, {}, {})
        return _released_weights(state)
    except ValueError as error:
        raise StoreError(f"{path}: not in the layout of the paper's release or of a ResNet-50: {error}") from error


def _resnet50(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a ResNet-50 without fc, with its buffers. Raises ValueError if they do not fit."""
    return with_weights(lambda: trainable_encoder("resnet50", pretrained=False).network, weights).state_dict()


def _released_weights(state: dict[str, Tensor]) -> BasslWeights:
    """Return weights by their names in the release as a model. Raises ValueError if they do not fit each other."""
    for buffer in ("crn.shot_embedding.pos_ids", "crn.attention_mask"):  # these follow from K
        state.pop(buffer, None)
    if (bias := state.pop(_MSM_BIAS_AGAIN, None)) is not None:  # BERT's implementation registers it twice
        state.setdefault(_MSM_BIAS, bias)
    encoder, crn = part_of(state, "shot_encoder"), part_of(state, "crn")
    heads = {name.removeprefix("loss."): tensor for name, tensor in state.items() if name.startswith(_RELEASED[2:])}
    if others := [name for name in state if not name.startswith(_RELEASED)]:
        raise ValueError(f"{printable(others[0], 200)} does not belong there")
    if not heads or not (encoder or crn):
        raise ValueError("it has no loss.head_* or head_sbd, or neither shot_encoder.* nor crn.*")
    settings = _crn_settings(crn) if crn else None
    if settings is not None:
        with_weights(partial(ContextualRelationNetwork, settings), crn)
    encoder = _resnet50(encoder) if encoder else {}
    return BasslWeights(BasslSettings("resnet50" if encoder else None, settings), encoder, crn, heads)


def _checkpoint_state(path: Path) -> dict[Any, Any]:
    """Return the dictionary in a checkpoint, or what it has under ``state_dict``."""
    check_regular(path, kind=StoreError)
    content: Any = None
    classes: list[str] = []
    try:
        if is_archive := zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:  # torch itself does not check the checksums
                is_stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())
                if not is_stored or archive.testzip() is not None:
                    raise ValueError("damaged or compressed")
            classes = sorted(get_unsafe_globals_in_checkpoint(path))
        code = [name for name in classes if not _TRAINER_CLASSES.fullmatch(name)]
        # Instances are empty dictionaries: torch sets items and attributes of these, which settings need.
        placeholder = type("Placeholder", (), {"__new__": lambda cls, *_: OrderedDict()})
        with warnings.catch_warnings(), safe_globals([(placeholder, name) for name in classes]):
            warnings.simplefilter("ignore")  # torch warns about files of other versions
            if not code:
                # Mapped, so that the state of the optimizer, as large as the weights, is not read.
                content = torch.load(path, map_location="cpu", mmap=is_archive, weights_only=True)
    except Exception as error:  # a forged pickle can make torch raise anything
        remedy = "unpack it if it is an archive, or get it again"
        raise StoreError(f"{path}: not a checkpoint that PyTorch can read, or damaged; {remedy}") from error
    if code:
        what = f"reading it would run code ({printable(', '.join(code), 200)})"
        raise StoreError(f"{path}: {what}; if you trust it, save its state_dict alone, or get another file")
    plain = (dict, OrderedDict)  # exactly these: a subclass may have methods of its own
    if type(content) in plain and "state_dict" in content:
        content = content["state_dict"]
    if type(content) not in plain:
        raise StoreError(f"{path}: has no weights by name; name a checkpoint of PyTorch Lightning, or a state_dict")
    return dict(dict.items(content))  # an OrderedDict may carry attributes, even a false `items`


def _plain_tensors(path: Path, state: Mapping[Any, Any]) -> dict[str, Tensor]:
    """Return copies of tensors, in single precision. Raises StoreError unless all are plain, dense and finite."""
    tensors = {}
    for name, value in state.items():
        is_plain = (
            isinstance(name, str)
            and type(value) in (Tensor, nn.Parameter)
            and not vars(value)
            and value.layout == torch.strided
            and value.device.type == "cpu"
            and value.dtype in _DTYPES
            # With strides of 0, a few bytes can be a tensor of any size.
            and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
            and bool(torch.isfinite(value).all())
        )
        if not is_plain:
            what = f"{printable(repr(name), 200)} among its weights is not a tensor of finite numbers"
            raise StoreError(f"{path}: {what}; get the file again")
        plain = value.detach().float() if value.is_floating_point() else value
        tensors[name] = plain.clone(memory_format=torch.contiguous_format)
    return tensors


def _crn_settings(crn: Mapping[str, Tensor]) -> CRNSettings:
    """Return the shape of a CRN from its weights. Raises ValueError if they have none."""
    ends = ("shot_embedding.position_embedding", "shot_embedding.mask_embedding", "encoder.layer.0.intermediate.dense")
    try:
        (places, width), (_, input_width), (hidden, _) = (tuple(crn[f"{end}.weight"].shape) for end in ends)
    except (KeyError, ValueError) as error:
        raise ValueError(f"crn has no matrices {', '.join(ends)}") from error
    layers = len({name.split(".")[2] for name in crn if name.startswith("encoder.layer.")})
    return CRNSettings(places // 2 - 1, input_width, width, layers, _HEADS, hidden)
