"""A released checkpoint built from its documented layout, and its CRN computed with plain tensor operations.

Nothing here uses the package: this is what its models are held against.
"""

import math
from collections import OrderedDict
from pathlib import Path

import torch
from torch import Tensor

HEADS = 8
EPS = 1e-12


def crn_tensors(
    neighbors: int, *, D_e: int = 24, D_c: int = 16, hidden: int = 40, layers: int = 2, seed: int = 0
) -> "OrderedDict[str, Tensor]":
    """Random weights of a CRN with the names of the layout, less ``crn.``."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int, about: float = 0.0) -> Tensor:
        return about + 0.3 * torch.randn(*shape, generator=generator)

    tensors: OrderedDict[str, Tensor] = OrderedDict()

    def linear(name: str, rows: int, columns: int) -> None:
        tensors[f"{name}.weight"] = random(rows, columns)
        tensors[f"{name}.bias"] = random(rows)

    def norm(name: str) -> None:
        tensors[f"{name}.weight"] = random(D_c, about=1.0)
        tensors[f"{name}.bias"] = random(D_c)

    linear("shot_embedding.shot_embedding", D_c, D_e)
    tensors["shot_embedding.position_embedding.weight"] = random(2 * neighbors + 2, D_c)
    tensors["shot_embedding.mask_embedding.weight"] = torch.stack([torch.zeros(D_e), random(D_e)])
    norm("shot_embedding.LayerNorm")
    for i in range(layers):
        for name in ("query", "key", "value"):
            linear(f"encoder.layer.{i}.attention.self.{name}", D_c, D_c)
        linear(f"encoder.layer.{i}.attention.output.dense", D_c, D_c)
        norm(f"encoder.layer.{i}.attention.output.LayerNorm")
        linear(f"encoder.layer.{i}.intermediate.dense", hidden, D_c)
        linear(f"encoder.layer.{i}.output.dense", D_c, hidden)
        norm(f"encoder.layer.{i}.output.LayerNorm")
    return tensors


def head_tensors(finetuned: bool, *, D_e: int = 24, D_c: int = 16, seed: int = 1) -> "OrderedDict[str, Tensor]":
    """Random weights of the heads with the names of the layout."""
    generator = torch.Generator().manual_seed(seed)
    linear = (
        {"head_sbd": (2, D_c)}
        if finetuned
        else {
            "loss.head_nce.model.0": (D_e, D_e),
            "loss.head_nce.model.2": (6, D_e),
            "loss.head_msm.predictions.transform.dense": (D_c, D_c),
            "loss.head_msm.predictions.decoder": (D_e, D_c),
            "loss.head_pp": (2, D_c),
            "loss.head_cgm": (2, 2 * D_c),
        }
    )
    tensors: OrderedDict[str, Tensor] = OrderedDict()
    for name, (rows, columns) in linear.items():
        tensors[f"{name}.weight"] = torch.randn(rows, columns, generator=generator)
        tensors[f"{name}.bias"] = torch.randn(rows, generator=generator)
    if not finetuned:
        tensors["loss.head_msm.predictions.transform.LayerNorm.weight"] = torch.rand(D_c, generator=generator)
        tensors["loss.head_msm.predictions.transform.LayerNorm.bias"] = torch.rand(D_c, generator=generator)
        tensors["loss.head_msm.predictions.bias"] = tensors["loss.head_msm.predictions.decoder.bias"]
    return tensors


def released_state(
    neighbors: int = 2, *, finetuned: bool = False, encoder: dict[str, Tensor] | None = None, D_e: int = 24
) -> "OrderedDict[str, Tensor]":
    """The state_dict of a released checkpoint, with a small CRN and with the given encoder, if any."""
    state: OrderedDict[str, Tensor] = OrderedDict()
    state.update({f"shot_encoder.{name}": tensor for name, tensor in (encoder or {}).items()})
    state.update({f"crn.{name}": tensor for name, tensor in crn_tensors(neighbors, D_e=D_e).items()})
    state["crn.shot_embedding.pos_ids"] = torch.arange(2 * neighbors + 2)
    state["crn.attention_mask"] = torch.zeros(1, 1, 1, 2 * neighbors + 2)
    state.update(head_tensors(finetuned, D_e=D_e))
    return state


def save(path: Path, state: object, **beside: object) -> Path:
    torch.save({"epoch": 9, "global_step": 63_000, "state_dict": state, **beside}, path)
    return path


def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """LayerNorm (Ba et al. 2016)."""
    centered = x - x.mean(dim=-1, keepdim=True)
    return centered / ((centered**2).mean(dim=-1, keepdim=True) + EPS) ** 0.5 * weight + bias


def gelu(x: Tensor) -> Tensor:
    """x times the standard normal distribution function of x (Hendrycks and Gimpel 2016)."""
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def crn_forward(tensors: dict[str, Tensor], shots: Tensor, mask: Tensor | None = None) -> Tensor:
    """The equations of BERT's encoder, one window, one place, one head at a time: (B, S, D_e) to (B, S+1, D_c)."""

    def linear(name: str, x: Tensor) -> Tensor:
        return torch.einsum("...i,oi->...o", x, tensors[f"{name}.weight"]) + tensors[f"{name}.bias"]

    def normed(name: str, x: Tensor) -> Tensor:
        return norm(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    windows = []
    for b, window in enumerate(shots):
        seen = [
            tensors["shot_embedding.mask_embedding.weight"][1] if mask is not None and mask[b, i] else shot
            for i, shot in enumerate(window)
        ]
        cls = sum(seen[1:], seen[0]) / len(seen)
        x = linear("shot_embedding.shot_embedding", torch.stack([cls, *seen]))
        x = normed("shot_embedding.LayerNorm", x + tensors["shot_embedding.position_embedding.weight"])
        for i in range(sum(name.endswith("intermediate.dense.bias") for name in tensors)):
            layer = f"encoder.layer.{i}"
            query, key, value = (linear(f"{layer}.attention.self.{name}", x) for name in ("query", "key", "value"))
            size = query.shape[1] // HEADS
            places = []
            for place in range(len(x)):
                heads = []
                for h in range(HEADS):
                    part = slice(h * size, (h + 1) * size)
                    score = torch.einsum("d,td->t", query[place, part], key[:, part]) / math.sqrt(size)
                    weight = torch.exp(score) / torch.exp(score).sum()
                    heads.append(torch.einsum("t,td->d", weight, value[:, part]))
                places.append(torch.cat(heads))
            attended = linear(f"{layer}.attention.output.dense", torch.stack(places))
            x = normed(f"{layer}.attention.output.LayerNorm", attended + x)
            wide = gelu(linear(f"{layer}.intermediate.dense", x))
            x = normed(f"{layer}.output.LayerNorm", linear(f"{layer}.output.dense", wide) + x)
        windows.append(x)
    return torch.stack(windows)
