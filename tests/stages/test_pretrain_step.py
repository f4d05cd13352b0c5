"""The step of pre-training: compiled networks, synchronized norms, and unsupported machines."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pipelines.errors import BasslError
from pipelines.models.encoders.torch_encoders import trainable_encoder
from pipelines.models.networks.kinds import CRNSettings
from pipelines.models.networks.torch_networks import ContextualRelationNetwork
from pipelines.pretext.objective import PretextObjective
from pipelines.pretext.pseudo_boundary import draw_noise
from pipelines.pretext.settings import PretextSettings
from pipelines.stages.pretrain.model import PretrainModel, backward_windows
from pipelines.training.distributed import Process
from pipelines.training.loop import make_trainer
from pipelines.training.memory import FEWER_WINDOWS, translate_resource_errors


class TinyEncoder(nn.Module):
    """(B, 3, 8, 8) to (B, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(pictures)).relu().mean(dim=(2, 3))


def tiny_model(encoder: nn.Module | None = None) -> PretrainModel:
    torch.manual_seed(0)
    crn = ContextualRelationNetwork(CRNSettings(2, 8, 16, 1, 2, 32, dropout=0.0))
    objective = PretextObjective(PretextSettings(), 8, 16)
    return PretrainModel(TinyEncoder() if encoder is None else encoder, crn, objective)


def gradients(model: PretrainModel) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.slow
@pytest.mark.parametrize("micro_batch", [0, 2])
def test_compiled_networks_give_the_same_loss_and_keep_weight_names(
    micro_batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_ = torch.compile
    calls: list[object] = []

    def compiled(function: Any, **options: Any) -> Any:
        calls.append(function)
        # Everything but the generation of code, which takes a compiler and half a minute.
        return compile_(function, backend="aot_eager", **options)

    monkeypatch.setattr(torch, "compile", compiled)
    plain = tiny_model()
    made = copy.deepcopy(plain)
    made.compile_networks()
    assert len(calls) == 2
    assert list(made.state_dict()) == list(plain.state_dict())
    generator = torch.Generator().manual_seed(1)
    dense, slow = (torch.randn(4, n, 3, 8, 8, generator=generator) for n in (5, 2))
    noise = draw_noise(4, 5, generator)
    totals = []
    for model in (plain, made):
        if micro_batch:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
            trainer = make_trainer(model, optimizer, "float32", Process(0, 1, torch.device("cpu")))
            options = {"noise": noise, "joins": None, "seed": 0}
            loss = backward_windows(trainer, model, lambda part: (dense[part], slow[part]), 4, micro_batch, **options)
        else:
            loss = model(dense, slow, noise, None)
            loss.total.backward()
        totals.append(loss.total.detach())
    torch.testing.assert_close(*totals, rtol=1e-5, atol=1e-6)
    expected, found = gradients(plain), gradients(made)
    assert expected.keys() == found.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(made.state_dict()[name], tensor, rtol=1e-4, atol=1e-6)


def test_processes_do_not_send_each_other_buffers_at_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, Any] = {}
    model = tiny_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def wrap(model: nn.Module, *, broadcast_buffers: bool | None = None, **given: Any) -> None:
        options.update(given, broadcast_buffers=broadcast_buffers)

    def wrap_in_newer_torch(model: nn.Module, *, forward_sync_buffers: bool | None = None, **given: Any) -> None:
        options.update(given, forward_sync_buffers=forward_sync_buffers)

    for stand_in, name in ((wrap, "broadcast_buffers"), (wrap_in_newer_torch, "forward_sync_buffers")):
        options.clear()
        monkeypatch.setattr(nn.parallel, "DistributedDataParallel", stand_in)
        make_trainer(model, optimizer, "float32", Process(0, 2, torch.device("cpu")))
        assert options[name] is False
        assert len(options) == 3


@pytest.mark.parametrize("name", ["resnet18", "timm:test_efficientnet"])
def test_synchronized_norms_keep_their_names_and_activations(name: str) -> None:
    torch.manual_seed(0)
    network = trainable_encoder(name, False).network
    pictures = torch.randn(2, 3, 64, 64)
    network(pictures)  # statistics of their own
    before = copy.deepcopy(network).eval()
    model = PretrainModel(network, None, PretextObjective(PretextSettings(tasks=("ssm",)), 8, 16))
    model.synchronize_norms()
    assert model.encoder is not None
    kinds = [type(module) for module in model.encoder.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    assert kinds
    assert all(issubclass(kind, nn.SyncBatchNorm) for kind in kinds)
    assert list(model.encoder.state_dict()) == list(before.state_dict())
    with torch.inference_mode():
        torch.testing.assert_close(model.eval().encoder(pictures), before(pictures))  # type: ignore[misc]


def broken(graph: Any, inputs: Any) -> Any:
    raise FileNotFoundError("no compiler")


def failing(error: Exception) -> Callable[[], Any]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (failing(torch.OutOfMemoryError("Tried to allocate 2 GiB\nmore")), r"2 GiB.*`micro_batch`"),
        (failing(RuntimeError("DataLoader worker (pid 1) is killed by signal: Bus error. ")), r"Bus error.*--shm-size"),
        (lambda: torch.empty(10**15), r"not enough memory .*; use `micro_batch`"),
        (lambda: np.empty(10**15), r"not enough memory .*; use `micro_batch`"),
        (lambda: torch.compile(lambda x: x + 1, backend=broken)(torch.ones(1)), "`compile` does not work here"),
    ],
    ids=["memory", "worker", "torch", "numpy", "compiler"],
)
def test_settings_that_the_machine_does_not_support_give_a_one_line_error(step: Callable[[], Any], words: str) -> None:
    with pytest.raises(BasslError, match=words) as caught, translate_resource_errors(FEWER_WINDOWS):
        step()
    assert "\n" not in str(caught.value)


def test_a_bug_gives_a_traceback() -> None:
    with pytest.raises(RuntimeError, match="a bug"), translate_resource_errors(FEWER_WINDOWS):
        raise RuntimeError("a bug")
