"""The contextual relation network is BERT's encoder over a window's shots; MLP and MS-LSTM are as in their papers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pipelines.models.networks import CRNSettings, MLPSettings, MSLSTMSettings
from pipelines.models.networks.torch_networks import MSLSTM, ContextualRelationNetwork, TransformerBoundary, WindowMLP
from tests.released_layout import crn_forward, crn_tensors

# --- the paper's network ----------------------------------------------------------------------------------------------


SMALL = CRNSettings(neighbors=2, input_width=24, width=16, layers=2, heads=8, hidden=40, dropout=0.1)


def network(settings: CRNSettings = SMALL) -> tuple[ContextualRelationNetwork, dict[str, Tensor]]:
    """A network in double precision with random weights, and the same weights as tensors of their own."""
    tensors = crn_tensors(settings.neighbors, layers=settings.layers)
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


# --- mask, dropout and initialization ---------------------------------------------------------------------------------


def test_a_masked_shot_does_not_affect_any_output() -> None:
    crn, _ = network()
    shots, mask = windows(), a_mask(3, SMALL.window)
    other = shots.clone()
    other[mask] = torch.nan
    assert all(map(torch.equal, crn(shots, mask), crn(other, mask)))


def test_dropout_is_used_only_in_training_and_also_on_attention_weights() -> None:
    crn, _ = network()
    shots = windows()
    assert torch.equal(crn(shots)[0], crn(shots)[0])
    crn.train()
    dropouts = [module for module in crn.modules() if isinstance(module, nn.Dropout)]
    assert {module.p for module in dropouts} == {0.1}
    assert len(dropouts) == 5
    for module in dropouts:
        module.eval()
    assert not torch.equal(crn(shots)[0], crn(shots)[0])


def test_head_and_crn_are_initialized_as_in_bert_and_the_mask_embedding_is_fixed() -> None:
    torch.manual_seed(0)
    network = TransformerBoundary(CRNSettings(2, 8, 256, 1, 8, 16))
    assert abs(float(network.head_sbd.weight.detach().std()) - 0.02) < 0.003
    assert not network.head_sbd.bias.any()
    fixed = [name for name, parameter in network.named_parameters() if not parameter.requires_grad]
    assert fixed == ["crn.shot_embedding.mask_embedding.weight"]


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


# --- MS-LSTM ----------------------------------------------------------------------------------------------------------


SMALL_LSTM = MSLSTMSettings(neighbors=3, input_width=7, width=5, sequence=4)


@pytest.fixture
def ms_lstm() -> MSLSTM:
    torch.manual_seed(0)
    return MSLSTM(SMALL_LSTM).double().eval()


def cuts_of(*shape: int) -> Tensor:
    return torch.randn(*shape, 6, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_the_ms_lstm_similarity_is_the_cosine_of_the_halves_after_the_releases_convolution(ms_lstm: MSLSTM) -> None:
    cuts = cuts_of(4)
    convolution = torch.nn.Conv2d(1, 5, kernel_size=(3, 1)).double()
    with torch.no_grad():
        convolution.weight.copy_(ms_lstm.side.weight[:, None, :, None])
        convolution.bias.copy_(ms_lstm.side.bias)  # type: ignore[union-attr]
        before, after = (convolution(half[:, None]).squeeze(2) for half in (cuts[:, :3], cuts[:, 3:]))
        expected = torch.nn.functional.cosine_similarity(before, after, dim=2)
    torch.testing.assert_close(ms_lstm.similarity(cuts), expected)


def test_context_is_the_maximum_filter_response(ms_lstm: MSLSTM) -> None:
    cuts = cuts_of(70)  # more than are in memory at a time
    responses = torch.einsum("ck,bkd->bcd", ms_lstm.context.weight, cuts) + ms_lstm.context.bias[:, None]
    torch.testing.assert_close(ms_lstm.greatest_context(cuts), responses.amax(dim=1))


def test_the_lstm_is_bidirectional(ms_lstm: MSLSTM) -> None:
    sequences = cuts_of(2, 4)
    before = ms_lstm(sequences)
    assert before.shape == (2, 4, 2)
    changed = sequences.clone()
    changed[0, 3] += 1
    after = ms_lstm(changed)
    assert not torch.isclose(before[0], after[0]).any()
    torch.testing.assert_close(before[1], after[1])


def test_gradients_equal_numerical_gradients(ms_lstm: MSLSTM) -> None:
    cuts = cuts_of(1, 2).requires_grad_()
    assert torch.autograd.gradcheck(ms_lstm, (cuts,))


def test_identical_sides_and_zero_features_have_finite_gradients() -> None:
    torch.manual_seed(0)
    ms_lstm = MSLSTM(SMALL_LSTM)
    with torch.no_grad():
        ms_lstm.side.bias.zero_()
    cuts = torch.zeros(1, 4, 6, 7)
    cuts[0, :2] = 1e4
    ms_lstm(cuts).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in ms_lstm.parameters() if p.grad is not None)
    similar = ms_lstm.similarity(cuts[0])
    torch.testing.assert_close(similar[0], torch.ones(5))
    assert similar.abs().max() <= 1 + 1e-5


def test_the_norm_of_encodings_does_not_matter(ms_lstm: MSLSTM) -> None:
    cuts = cuts_of(2, 4)
    lengths = torch.rand(2, 4, 6, 1, dtype=torch.float64) * 100 + 0.1
    torch.testing.assert_close(ms_lstm(cuts * lengths), ms_lstm(cuts))
