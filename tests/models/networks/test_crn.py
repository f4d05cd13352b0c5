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
@pytest.mark.parametrize(("neighbors", "layers"), [(1, 3), (2, 2), (4, 1)])
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


def test_the_crn_of_the_papers_size_equals_the_equations_in_single_precision() -> None:
    settings = CRNSettings()
    torch.manual_seed(0)
    crn = ContextualRelationNetwork(settings).eval()
    shots = torch.randn(1, 17, 2048)
    with torch.no_grad():
        contextualised, cls = crn(shots)
        literal = crn_forward(crn.state_dict(), shots)
    assert contextualised.shape == (1, 17, 768)
    assert cls.shape == (1, 768)
    torch.testing.assert_close(torch.cat([cls[:, None], contextualised], dim=1), literal, rtol=1e-4, atol=1e-4)


def test_a_crn_layer_equals_torchs_post_norm_layer() -> None:
    crn, tensors = network()
    x = torch.randn(3, 6, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for i, layer in enumerate(crn.encoder.layer):
        reference = nn.TransformerEncoderLayer(
            16, 8, 40, dropout=0.1, activation="gelu", layer_norm_eps=1e-12, batch_first=True, norm_first=False
        )
        ours = {name.removeprefix(f"encoder.layer.{i}."): tensor for name, tensor in tensors.items()}
        qkv = [f"attention.self.{name}" for name in ("query", "key", "value")]
        mapped = {
            "self_attn.in_proj_weight": torch.cat([ours[f"{name}.weight"] for name in qkv]),
            "self_attn.in_proj_bias": torch.cat([ours[f"{name}.bias"] for name in qkv]),
        }
        for theirs, name in {
            "self_attn.out_proj": "attention.output.dense",
            "norm1": "attention.output.LayerNorm",
            "linear1": "intermediate.dense",
            "linear2": "output.dense",
            "norm2": "output.LayerNorm",
        }.items():
            mapped |= {f"{theirs}.{kind}": ours[f"{name}.{kind}"] for kind in ("weight", "bias")}
        reference = reference.double().eval()
        reference.load_state_dict(mapped)
        torch.testing.assert_close(layer(x), reference(x), rtol=1e-10, atol=1e-10)


def test_crn_names_and_shapes_equal_a_released_checkpoint() -> None:
    expected = crn_tensors(8, D_e=2048, D_c=768, hidden=3072)
    state = ContextualRelationNetwork().state_dict()
    assert {name: tensor.shape for name, tensor in state.items()} == {name: t.shape for name, t in expected.items()}


def test_windows_of_a_batch_do_not_affect_each_other() -> None:
    crn, _ = network()
    shots = windows()
    together = crn(shots)
    alone = [crn(window[None]) for window in shots]
    for i in range(2):
        torch.testing.assert_close(together[i], torch.cat([each[i] for each in alone]))


# --- the mask ---------------------------------------------------------------------------------------------------------


def test_a_masked_shot_does_not_affect_any_output() -> None:
    crn, _ = network()
    shots, mask = windows(), a_mask(3, SMALL.window)
    other = shots.clone()
    other[mask] = torch.nan
    assert all(map(torch.equal, crn(shots, mask), crn(other, mask)))


def test_a_masked_shot_gets_no_gradient_and_the_mask_embedding_does() -> None:
    crn, _ = network()
    shots, mask = windows().requires_grad_(), a_mask(3, SMALL.window)
    crn(shots, mask)[0].square().sum().backward()
    assert not shots.grad[mask].any()
    assert shots.grad[~mask].any(dim=1).all()
    gradient = crn.shot_embedding.mask_embedding.weight.grad
    assert not gradient[0].any()
    assert gradient[1].all()


def test_a_mask_of_numbers_equals_a_boolean_mask_and_an_empty_one_equals_none() -> None:
    crn, _ = network()
    shots, mask = windows(), a_mask(3, SMALL.window)
    for first, *others in ((mask, mask.long(), mask.float()), (None, torch.zeros_like(mask))):
        for other in others:
            assert all(map(torch.equal, crn(shots, first), crn(shots, other)))


def test_row_zero_of_the_mask_embedding_is_zero_and_never_read() -> None:
    assert not ContextualRelationNetwork(SMALL).shot_embedding.mask_embedding.weight[0].any()
    crn, _ = network()
    shots, mask = windows(), a_mask(3, SMALL.window)
    before = crn(shots, mask)
    with torch.no_grad():
        crn.shot_embedding.mask_embedding.weight[0] = 7.0
    assert all(map(torch.equal, before, crn(shots, mask)))


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


def test_the_mean_over_dropout_masks_is_right_where_the_network_is_linear_in_them() -> None:
    # Dropout scales what it keeps: over many draws, attended values have the mean that they have without it.
    crn, _ = network()
    attention = crn.encoder.layer[0].attention.self
    x = torch.randn(1, 6, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    expected = attention(x)
    torch.manual_seed(0)
    drawn = attention.train()(x.expand(20_000, -1, -1))
    spread = drawn.std(dim=0) / 20_000**0.5
    assert ((drawn.mean(dim=0) - expected[0]).abs() < 5 * spread).all()
    assert not torch.equal(drawn[0], drawn[1])


def test_weights_are_initialized_as_in_pytorchs_layers() -> None:
    torch.manual_seed(0)
    crn = ContextualRelationNetwork(CRNSettings(layers=1))
    for name, module in crn.named_modules():
        if isinstance(module, nn.Linear):
            bound = module.in_features**-0.5  # of a uniform distribution
            for drawn in (module.weight.detach(), module.bias.detach()):
                assert bound * 0.99 < drawn.abs().max() <= bound, name
                assert abs(float(drawn.std()) / bound - 3**-0.5) < 0.05, name
        elif isinstance(module, nn.Embedding):
            drawn = module.weight.detach()
            if "mask" in name:
                assert not drawn[0].any()
                drawn = drawn[1]
            assert abs(float(drawn.std()) - 1) < 0.05, name
        elif isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all(), name
            assert not module.bias.any(), name


def test_the_crn_fits_labels_that_depend_on_two_shots() -> None:
    torch.manual_seed(0)
    crn = ContextualRelationNetwork(CRNSettings(1, 8, 16, 1, 8, 32, dropout=0.0))
    head = nn.Linear(16, 2)
    optimizer = torch.optim.Adam([*crn.parameters(), *head.parameters()], lr=0.01)
    shots = torch.randn(32, 3, 8)
    labels = ((shots[:, 0, 0] > 0) ^ (shots[:, 2, 0] > 0)).long()
    for _ in range(60):
        loss = nn.functional.cross_entropy(head(crn(shots)[0][:, 1]), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.detach() < 0.3


def test_mixed_precision_outputs_are_close() -> None:
    crn, _ = network()
    crn, shots, mask = crn.float(), windows().float(), a_mask(3, SMALL.window)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = crn(shots.bfloat16(), mask)[0]
    assert (mixed.float() - crn(shots, mask)[0]).abs().max() < 0.2


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
