"""The step of pre-training: buffers of several processes, synchronized norms, and unsupported machines."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from timm.layers import convert_sync_batchnorm
from torch import nn

from pipelines.errors import BasslError
from pipelines.models.encoders.torch_encoders import trainable_encoder
from pipelines.training.data import translate_resource_errors
from pipelines.training.distributed import Process
from pipelines.training.loop import make_trainer


def test_processes_do_not_send_each_other_buffers_at_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, Any] = {}
    model = nn.Linear(2, 1)
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
    synchronized = convert_sync_batchnorm(network)
    kinds = [type(module) for module in synchronized.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    assert kinds
    assert all(issubclass(kind, nn.SyncBatchNorm) for kind in kinds)
    assert list(synchronized.state_dict()) == list(before.state_dict())
    with torch.inference_mode():
        torch.testing.assert_close(synchronized.eval()(pictures), before(pictures))


def failing(error: Exception) -> Callable[[], Any]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (failing(torch.OutOfMemoryError("Tried to allocate 2 GiB\nmore")), r"2 GiB.*`micro_batch`"),
        (lambda: torch.empty(10**15), r"not enough memory .*; use `micro_batch`"),
        (lambda: np.empty(10**15), r"not enough memory .*; use `micro_batch`"),
    ],
    ids=["memory", "torch", "numpy"],
)
def test_settings_that_the_machine_does_not_support_give_a_one_line_error(step: Callable[[], Any], words: str) -> None:
    with pytest.raises(BasslError, match=words) as caught, translate_resource_errors("use `micro_batch`"):
        step()
    assert "\n" not in str(caught.value)


def test_a_bug_gives_a_traceback() -> None:
    with pytest.raises(RuntimeError, match="a bug"), translate_resource_errors("use `micro_batch`"):
        raise RuntimeError("a bug")
