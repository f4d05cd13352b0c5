"""Shot encoders run by ONNX Runtime on the CPU: the default encoder, and any image network in an ONNX file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError, first_line
from pipelines.files import MOST_LARGE_BYTES, read_regular
from pipelines.models.encoders import EncoderOptions, Preparation
from pipelines.models.encoders.shot_encoder import (
    KEYFRAMES,
    Color,
    ShotEncoder,
    encoder_id,
    preparation_facts,
    scale_color,
)

# From version 1.29 on, ONNX Runtime records data about the machine, the process and its models in ~/.cache and sends
# them to Microsoft, unless this is set before the import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

BUILT_IN = Path(__file__).parents[1] / "data" / "efficientnet_lite0.onnx"
"""The default encoder, EfficientNet-Lite0 with ImageNet weights, made by ``recipes/onnx_encoder``."""

_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
_FORM = "the only input of an encoder is images, (B, 3, H, W) float or (B, H, W, 3) uint8"


@dataclass(frozen=True, eq=False, kw_only=True)
class OnnxEncoder(ShotEncoder):
    """The network of an ONNX file, thread-safe. With uint8 input it normalizes itself: ``mean`` is 0, ``std`` 1."""

    file: Path
    session: onnxruntime.InferenceSession
    output: str  # name of the output with the features
    one_at_a_time: bool  # whether the file fixes the batch to one image

    def features(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        parts = np.split(images, len(images)) if self.one_at_a_time else [images]
        features = np.concatenate([self.run(part) for part in parts])
        if features.shape != (len(images), self.width):
            raise BasslError(
                f"{self.file}: returns {features.shape} for {len(images)} images, not {(len(images), self.width)}; "
                "export it with a dynamic batch dimension"
            )
        return features

    def run(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Map images (B, size, size, 3) to the output of the network, (B, D_e); a grid is averaged over its positions.
        Raises BasslError if the network cannot be run, or for another output."""
        node = self.session.get_inputs()[0]
        x: NDArray[Any] = images
        if node.type in _FLOATS:
            x = images.transpose(0, 3, 1, 2).astype(np.float32, order="C")
            x -= np.array(self.mean, np.float32)[:, None, None]
            x /= np.array(self.std, np.float32)[:, None, None]
            x = x.astype(_FLOATS[node.type], copy=False)
        try:
            (values,) = self.session.run([self.output], {node.name: x})
        except Exception as error:  # as in `_session`
            raise BasslError(f"{self.file}: cannot be run on images {x.shape} ({first_line(error)})") from error
        shape = getattr(values, "shape", ())
        if len(shape) not in (2, 4) or 0 in shape or values.dtype.kind != "f":
            kind = f"{values.dtype} {shape}" if isinstance(values, np.ndarray) else type(values).__name__
            form = "an encoder returns (B, D) or a grid (B, D, H, W)"
            raise BasslError(f"{self.file}: its output {self.output} is {kind}; {form}")
        features: NDArray[np.float32] = values.astype(np.float32, copy=False)
        return features.mean(axis=(2, 3)) if features.ndim == 4 else features


def open_onnx_encoder(
    path: Path,
    keyframes: int = KEYFRAMES,
    preparation: Preparation = "squeeze",
    options: EncoderOptions = EncoderOptions(),
) -> OnnxEncoder:
    """Return the network in an ONNX file as a shot encoder; arguments as for
    :func:`pipelines.models.encoder_loading.load_encoder`.

    It has one input, ``(B, 3, H, W)`` float or ``(B, H, W, 3)`` uint8, and one output with features, ``(B, D_e)``, or a
    grid ``(B, D_e, H', W')``, which is averaged; `options` override its metadata. Raises BasslError for a file that
    does not exist, is not such a network, or lacks a value that `options` lack too.
    """
    content = read_regular(path, MOST_LARGE_BYTES, BasslError)
    session = _session(path, content)
    try:
        metadata: Mapping[str, str] = session.get_modelmeta().custom_metadata_map
        kind, batch, sides = _input(path, session)
        outputs = [str(node.name) for node in session.get_outputs()]
    except UnicodeDecodeError as error:
        raise BasslError(f"{path}: its metadata or names are not UTF-8; export it again") from error
    if kind not in _FLOATS and (options.encoder_mean or options.encoder_std):
        raise BasslError(f"{path}: takes images as uint8 and normalizes them itself; leave out mean and std")
    options = _with_metadata(path, options, metadata)
    output = options.encoder_output or (outputs[0] if len(outputs) == 1 else "")
    if output not in outputs:
        problem = f"has no output {output!r}" if output else "has several outputs"
        raise BasslError(f"{path}: {problem}; name one with `encoder_output`: {', '.join(outputs)}")
    sizes = sides if options.encoder_size is None else {*sides, options.encoder_size}
    if len(sizes) != 1 or not 1 <= max(sizes) <= 4096:
        sides_text = " or ".join(map(str, sorted(sizes))) or "of any size"
        raise BasslError(
            f"{path}: the side of its input is {sides_text}; it is one number from 1 to 4096 for all images, "
            "which `encoder_size` sets if the file does not"
        )
    (size,) = sizes
    mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if kind in _FLOATS:
        mean, std = _color(path, "mean", options.encoder_mean), _color(path, "std", options.encoder_std)
    name = metadata.get("name") or path.stem
    prepared = preparation_facts(size, mean, std, keyframes, preparation) | {"output": output}
    encoder = OnnxEncoder(
        name=name,
        id=encoder_id(name, [content], prepared),
        width=0,  # until it has run
        size=size,
        mean=mean,
        std=std,
        precision="int8" if metadata.get("precision", "").startswith("int8") else "float32",
        keyframes=keyframes,
        preparation=preparation,
        file=path,
        session=session,
        output=output,
        one_at_a_time=batch == 1,
    )
    return replace(encoder, width=encoder.run(np.zeros((1, size, size, 3), np.uint8)).shape[1])


def _with_metadata(path: Path, options: EncoderOptions, metadata: Mapping[str, str]) -> EncoderOptions:
    """Return options, with values from the metadata, JSON except for the output, for those that are None."""
    for name in ("mean", "std", "size", "output"):
        text = metadata.get(name)
        if text and getattr(options, f"encoder_{name}") is None:
            try:
                value: Any = text if name == "output" else json.loads(text)
                options = replace(options, **{f"encoder_{name}": value})
            except (ValueError, RecursionError) as error:
                raise BasslError(f"{path}: the {name} in its metadata cannot be read: {text[:40]!r}") from error
    return options


def _color(path: Path, name: str, values: tuple[float, ...] | None) -> Color:
    """Return the mean or standard deviation of the channels on the scale of 0 to 255."""
    if values is None:
        raise BasslError(f"{path}: has no {name} in its metadata; pass the one of its training as `encoder_{name}`")
    if len(values) != 3 or not all(0.0 <= value <= 1.0 for value in values) or (name == "std" and 0.0 in values):
        what = "three numbers on the scale of 0 to 1, of which no std is 0"
        raise BasslError(f"{path}: the {name} is {list(values)}; it is {what}")
    return scale_color(values)


def _session(path: Path, content: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    # bassl's own threads and processes share the groups of shots, one core each; a pool would only wait.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The digest does not cover weights in a second file, so they are searched for in a folder that does not exist.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path))
    options.log_severity_level = 4  # fatal errors are raised as well
    try:
        # Its fallback, again the CPU, would print a banner to stdout first.
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"], enable_fallback=False)
    except Exception as error:  # ONNX Runtime's errors have no common type
        if "external" in str(error).lower():
            raise BasslError(
                f"{path}: keeps its weights in another file; export it into one (torch.onnx: external_data=False)"
            ) from error
        raise BasslError(f"{path}: is not an ONNX network that can be run ({first_line(error)})") from error


def _input(path: Path, session: onnxruntime.InferenceSession) -> tuple[str, int | None, set[int]]:
    """Return the type of the only input, its batch, or None, and the fixed ones of height and width."""
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise BasslError(f"{path}: has the inputs {', '.join(node.name for node in inputs) or 'none'}; {_FORM}")
    kind, shape = inputs[0].type, inputs[0].shape
    channels = {"tensor(uint8)": 3, **dict.fromkeys(_FLOATS, 1)}.get(kind)
    fixed = [dimension if isinstance(dimension, int) else None for dimension in shape]
    if channels is None or len(shape) != 4 or fixed[channels] not in (3, None):
        raise BasslError(f"{path}: takes {kind} {shape}; {_FORM}")
    if fixed[0] not in (1, None):
        raise BasslError(f"{path}: takes exactly {fixed[0]} images at a time; export it with a dynamic batch dimension")
    return kind, fixed[0], {side for i, side in enumerate(fixed) if i not in (0, channels) and side is not None}
