"""MS-LSTM against what its filters, cosines and maxima are, written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pipelines.models.networks import MSLSTMSettings, torch_networks
from pipelines.models.networks.torch_networks import MSLSTM

SMALL = MSLSTMSettings(neighbors=3, input_width=7, width=5, sequence=4)


@pytest.fixture
def network() -> MSLSTM:
    torch.manual_seed(0)
    return MSLSTM(SMALL).double().eval()


def windows(*shape: int) -> Tensor:
    return torch.randn(*shape, 6, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_the_ms_lstm_similarity_is_the_cosine_of_the_halves_after_the_releases_convolution(network: MSLSTM) -> None:
    cuts = windows(4)
    convolution = torch.nn.Conv2d(1, 5, kernel_size=(3, 1)).double()
    with torch.no_grad():
        convolution.weight.copy_(network.side.weight[:, None, :, None])
        convolution.bias.copy_(network.side.bias)  # type: ignore[union-attr]
        before, after = (convolution(half[:, None]).squeeze(2) for half in (cuts[:, :3], cuts[:, 3:]))
        expected = torch.nn.functional.cosine_similarity(before, after, dim=2)
    torch.testing.assert_close(network.similarity(cuts), expected)


def test_context_is_the_maximum_filter_response_in_any_number_of_chunks(
    network: MSLSTM, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts = windows(9)
    responses = torch.einsum("ck,bkd->bcd", network.context.weight, cuts) + network.context.bias[:, None]
    expected = responses.amax(dim=1)
    torch.testing.assert_close(network.greatest_context(cuts), expected)
    monkeypatch.setattr(torch_networks, "_CHUNK", 2)
    torch.testing.assert_close(network.greatest_context(cuts), expected)


def test_the_lstm_is_bidirectional(network: MSLSTM) -> None:
    sequences = windows(2, 4)
    before = network(sequences)
    assert before.shape == (2, 4, 2)
    changed = sequences.clone()
    changed[0, 3] += 1
    after = network(changed)
    assert not torch.isclose(before[0], after[0]).any()
    torch.testing.assert_close(before[1], after[1])


def test_gradients_equal_numerical_gradients(network: MSLSTM) -> None:
    cuts = windows(1, 2).requires_grad_()
    assert torch.autograd.gradcheck(network, (cuts,))


def test_identical_sides_and_zero_features_have_finite_gradients() -> None:
    torch.manual_seed(0)
    network = MSLSTM(SMALL)
    with torch.no_grad():
        network.side.bias.zero_()
    cuts = torch.zeros(1, 4, 6, 7)
    cuts[0, :2] = 1e4
    network(cuts).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)
    similar = network.similarity(cuts[0])
    torch.testing.assert_close(similar[0], torch.ones(5))
    assert similar.abs().max() <= 1 + 1e-5


def test_the_norm_of_encodings_does_not_matter(network: MSLSTM) -> None:
    cuts = windows(2, 4)
    lengths = torch.rand(2, 4, 6, 1, dtype=torch.float64) * 100 + 0.1
    torch.testing.assert_close(network(cuts * lengths), network(cuts))
