"""The contextual relation network is BERT's encoder over a window's shots, equation by equation; and the MLP."""

import pytest
import torch
from torch import Tensor, nn

from pipelines.models.networks import CRNSettings, MLPSettings
from pipelines.models.networks.torch_networks import ContextualRelationNetwork, WindowMLP
from tests.released_layout import crn_forward, crn_tensors

SMALL = CRNSettings(neighbors=2, input_width=24, width=16, layers=2, heads=8, hidden=40, dropout=0.1)


def network(settings: CRNSettings = SMALL, seed: int = 0) -> tuple[ContextualRelationNetwork, dict[str, Tensor]]:
    """A network in double precision with random weights, and the same weights as tensors of their own."""
    tensors = crn_tensors(
        settings.neighbors,
        D_e=settings.input_width,
        D_c=settings.width,
        hidden=settings.hidden,
        layers=settings.layers,
        seed=seed,
    )
    crn = ContextualRelationNetwork(settings)
    crn.load_state_dict(tensors)
    return crn.double().eval(), {name: tensor.double().requires_grad_() for name, tensor in tensors.items()}


def windows(settings: CRNSettings = SMALL, B: int = 3, seed: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(B, settings.window, settings.input_width, generator=generator, dtype=torch.float64)


def a_mask(B: int, S: int) -> Tensor:
    mask = torch.rand(B, S, generator=torch.Generator().manual_seed(8)) < 0.4
    mask[:, 1] = True
    mask[0] = False  # a window without a hidden shot
    return mask


# --- the equations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("neighbors", "layers"), [(1, 3), (4, 1)])
def test_crn_values_and_gradients_equal_the_published_equations(neighbors: int, layers: int, masked: bool) -> None:
    settings = CRNSettings(neighbors, 24, 16, layers, 8, 40)
    crn, tensors = network(settings)
    shots = windows(settings).requires_grad_()
    literal_shots = shots.detach().clone().requires_grad_()
    mask = a_mask(3, settings.window) if masked else None

    contextualised, cls = crn(shots, mask)
    output = torch.cat([cls[:, None], contextualised], dim=1)
    literal = crn_forward(tensors, literal_shots, mask)
    torch.testing.assert_close(output, literal, rtol=1e-10, atol=1e-10)

    weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (output * weight).sum().backward()
    (literal * weight).sum().backward()
    torch.testing.assert_close(shots.grad, literal_shots.grad, rtol=1e-8, atol=1e-9)
    compared = 0
    for name, parameter in crn.named_parameters():
        if name == "shot_embedding.mask_embedding.weight" and not masked:
            assert parameter.grad is None
            continue
        torch.testing.assert_close(parameter.grad, tensors[name].grad, rtol=1e-8, atol=1e-9, msg=name)
        compared += 1
    assert compared == 6 + 16 * layers - (not masked)


def test_crn_names_and_shapes_equal_a_released_checkpoint() -> None:
    expected = crn_tensors(8, D_e=2048, D_c=768, hidden=3072)
    state = ContextualRelationNetwork().state_dict()
    assert {name: tensor.shape for name, tensor in state.items()} == {name: t.shape for name, t in expected.items()}


# --- the mask ---------------------------------------------------------------------------------------------------------


def test_a_masked_shot_does_not_affect_any_output() -> None:
    crn, _ = network()
    shots, mask = windows(), a_mask(3, SMALL.window)
    other = shots.clone()
    other[mask] = torch.nan
    assert all(map(torch.equal, crn(shots, mask), crn(other, mask)))


def test_a_mask_of_numbers_equals_a_boolean_mask_and_an_empty_one_equals_none() -> None:
    crn, _ = network()
    shots, mask = windows(), a_mask(3, SMALL.window)
    for first, *others in ((mask, mask.long(), mask.float()), (None, torch.zeros_like(mask))):
        for other in others:
            assert all(map(torch.equal, crn(shots, first), crn(shots, other)))


# --- training ---------------------------------------------------------------------------------------------------------


def test_dropout_is_used_only_in_training() -> None:
    shots = windows()
    for dropout in (0.1, 0.0):
        crn, _ = network(CRNSettings(2, 24, 16, 2, 8, 40, dropout=dropout))
        evaluated = crn(shots)[0]
        assert torch.equal(crn(shots)[0], evaluated)
        crn.train()
        assert torch.allclose(crn(shots)[0], evaluated) == (dropout == 0)


def test_dropout_is_also_applied_to_attention_weights() -> None:
    crn, _ = network()
    shots = windows()
    crn.train()
    for module in crn.modules():
        if isinstance(module, nn.Dropout):
            assert module.p == 0.1
            module.eval()
    assert not torch.equal(crn(shots)[0], crn(shots)[0])


# --- the MLP ----------------------------------------------------------------------------------------------------------


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


def test_the_mlp_has_the_sizes_of_shotcol_and_dropout_after_both_hidden_layers_in_training() -> None:
    with torch.device("meta"):
        network = WindowMLP(MLPSettings())
    sizes = [module.weight.shape for module in network.layers if isinstance(module, nn.Linear)]
    assert sizes == [(4096, 17 * 2048), (1024, 4096), (2, 1024)]
    kinds = [type(module).__name__ for module in network.layers]
    assert kinds == ["Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear"]
    network, windows = WindowMLP(MLPSettings(1, 4, 8)), torch.randn(3, 3, 4)
    assert not torch.equal(network(windows), network(windows))
