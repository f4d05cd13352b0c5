"""The MLP over a window's shots."""

import torch

from pipelines.models.mlp import WindowMLP
from pipelines.models.networks import MLPSettings


def test_the_mlp_has_three_layers_over_the_concatenated_shots() -> None:
    torch.manual_seed(0)
    network = WindowMLP(MLPSettings(neighbors=2, input_width=6, width=12)).eval()
    state = network.state_dict()
    assert [tuple(tensor.shape) for tensor in state.values()] == [(12, 30), (12,), (3, 12), (3,), (2, 3), (2,)]
    windows = torch.randn(4, 5, 6)
    x = torch.cat([windows[:, i] for i in range(5)], dim=1)
    for layer in (0, 3, 6):
        x = x @ state[f"layers.{layer}.weight"].T + state[f"layers.{layer}.bias"]
        x = x if layer == 6 else x.clamp_min(0)
    torch.testing.assert_close(network(windows), x)


def test_the_mlp_has_the_sizes_of_shotcol() -> None:
    with torch.device("meta"):
        network = WindowMLP(MLPSettings())
    sizes = [module.weight.shape for module in network.layers if isinstance(module, torch.nn.Linear)]
    assert sizes == [(4096, 17 * 2048), (1024, 4096), (2, 1024)]


def test_dropout_follows_both_hidden_layers_in_training_only() -> None:
    torch.manual_seed(0)
    network = WindowMLP(MLPSettings(1, 4, 8))
    windows = torch.randn(3, 3, 4)
    assert not torch.equal(network(windows), network(windows))
    network.eval()
    assert torch.equal(network(windows), network(windows))
    kinds = [type(module).__name__ for module in network.layers]
    assert kinds == ["Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear"]
