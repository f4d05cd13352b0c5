"""Each pretext loss against its equation, transcribed with loops over windows, in values and in gradients."""

from collections.abc import Callable, Sequence
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.pretext import losses
from pipelines.pretext.losses import ContrastiveHead, MaskedShotHead

Variant = Literal["release", "paper"]
B, S, D_E, D_C, D = 5, 7, 12, 10, 6
TAU = 0.1


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def agree(ours: Callable[[], Tensor], transcribed: Callable[[], Tensor], leaves: Sequence[Tensor]) -> None:
    """Equal values, and equal gradients with respect to every leaf; none of them is zero."""
    value, expected = ours(), transcribed()
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)
    assert value.shape == ()
    gradients = torch.autograd.grad(value, leaves)
    for gradient, other in zip(gradients, torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-8, atol=1e-12)
        assert gradient.abs().max() > 0


def sim(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y) / (x.norm() * y.norm())


# Contrastive losses.


def nt_xent_transcribed(first: Tensor, second: Tensor) -> Tensor:
    z = [*first, *second]
    total = torch.zeros((), dtype=torch.float64)
    for i in range(2 * B):
        partner = (i + B) % (2 * B)
        below = sum(torch.exp(sim(z[i], z[j]) / TAU) for j in range(2 * B) if j != i)
        total = total - torch.log(torch.exp(sim(z[i], z[partner]) / TAU) / below)
    return total / (2 * B)


def nce_transcribed(shots: Sequence[Tensor], scenes: Sequence[Tensor], i: int) -> Tensor:
    """L_NCE(e, r) of section 3.4 for the i-th pair."""
    e, r = shots[i], scenes[i]
    own = torch.exp(sim(e, r) / TAU)
    other_shots = sum(torch.exp(sim(shots[j], r) / TAU) for j in range(len(shots)) if j != i)
    other_scenes = sum(torch.exp(sim(e, scenes[j]) / TAU) for j in range(len(scenes)) if j != i)
    return -torch.log(own / (own + other_shots + other_scenes))


BOUNDARIES = torch.tensor([0, 3, S - 2, 2, 4])


def test_shot_scene_matching_equals_the_release() -> None:
    head = ContrastiveHead(D_E, D).double()
    slow, dense = leaf(B, 2, D_E), leaf(B, S, D_E)

    def transcribed() -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for side in range(2):
            shots, scenes = [], []
            for window, b in enumerate(BOUNDARIES.tolist()):
                members = range(b + 1) if side == 0 else range(b + 1, S)
                units = []
                for i in members:
                    hidden = torch.relu(head.model[0](dense[window, i]))
                    output = head.model[2](hidden)
                    units.append(output / output.norm())
                scenes.append(sum(units) / len(members))
                shots.append(head(slow[window, side]))
            total = total + nt_xent_transcribed(torch.stack(shots), torch.stack(scenes)) / 2
        return total

    agree(
        lambda: losses.shot_scene_matching(head(slow), head(dense), BOUNDARIES, TAU),
        transcribed,
        (slow, dense, *head.parameters()),
    )


def test_shot_scene_matching_equals_the_papers_equation() -> None:
    head = ContrastiveHead(D_E, D, "paper").double()
    slow, dense = leaf(B, 2, D_E), leaf(B, S, D_E)

    def transcribed() -> Tensor:
        shots, scenes = [], []
        for window, b in enumerate(BOUNDARIES.tolist()):
            for side, members in enumerate((dense[window, : b + 1], dense[window, b + 1 :])):
                shots.append(head(slow[window, side]))
                scenes.append(head(members.mean(0)))  # the head of the mean, as it stands in the equation
        total = torch.zeros((), dtype=torch.float64)
        for window in range(B):
            total = total + nce_transcribed(shots, scenes, 2 * window) + nce_transcribed(shots, scenes, 2 * window + 1)
        return total / B

    agree(
        lambda: losses.shot_scene_matching(head(slow), head(dense), BOUNDARIES, TAU, "paper"),
        transcribed,
        (slow, dense, *head.parameters()),
    )


def test_the_shotcol_loss_equals_its_definition() -> None:
    query, dense = leaf(B, D), leaf(B, S, D)

    def transcribed() -> Tensor:
        nearest = []
        for window in dense:
            others = [i for i in range(S) if i != S // 2]
            nearest.append(window[max(others, key=lambda i: sim(window[S // 2], window[i]).item())])
        return nt_xent_transcribed(query, torch.stack(nearest))

    agree(lambda: losses.shotcol(query, dense, TAU), transcribed, (query, dense))


def test_the_nearest_shot_is_found_in_full_precision_under_autocast() -> None:
    others = F.normalize(torch.randn(64, 1, 6) + 0.01 * torch.randn(64, 4, 6), dim=-1)  # next to equal
    dense = torch.cat([others[:, :2], F.normalize(torch.randn(64, 1, 6), dim=-1), others[:, 2:]], dim=1)
    similarity = (dense.double() @ dense.double()[:, 2, :, None]).squeeze(2)
    similarity[:, 2] = -2
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(losses.nearest_other(dense), similarity.argmax(dim=1))


def test_the_nearest_shot_is_another_one_even_if_all_point_away_from_the_center() -> None:
    away = -torch.ones(1, 3, 2)
    away[0, 1] = 1
    assert losses.nearest_other(away).tolist() == [0]


@pytest.mark.parametrize("loss", [losses.nt_xent, losses.info_nce])
def test_shots_without_a_direction_and_low_temperatures_have_finite_losses(
    loss: Callable[[Tensor, Tensor, float], Tensor],
) -> None:
    first = torch.randn(B, D)
    assert torch.isfinite(loss(first, -first, 1e-4))
    # Without a direction, each of the others is as likely.
    torch.testing.assert_close(loss(0 * first, 0 * first, TAU), torch.tensor(2.0 * B - 1).log())


# Losses on contextualized shots.


@pytest.mark.parametrize("variant", ["release", "paper"])
def test_contextual_group_matching_equals_its_equation(variant: Variant) -> None:
    head = nn.Linear(2 * D_C, 2).double()
    context = leaf(B, S, D_C)
    positive, negative = torch.tensor([0, 1, 6, 2, 5]), torch.tensor([6, 5, 0, 4, 1])

    def transcribed() -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for window in range(B):
            center, same, different = (context[window, int(i)] for i in (S // 2, positive[window], negative[window]))
            if variant == "release":
                center, same, different = (c / c.norm() for c in (center, same, different))
            h_same, h_different = (
                torch.softmax(head(torch.cat([center, other])), dim=0)[1] for other in (same, different)
            )
            total = total - torch.log(h_same) - torch.log(1 - h_different)
        return total / (B if variant == "paper" else 2 * B)

    agree(
        lambda: losses.contextual_group_matching(head, context, positive, negative, variant),
        transcribed,
        (context, *head.parameters()),
    )


@pytest.mark.parametrize("variant", ["release", "paper"])
def test_pseudo_boundary_prediction_equals_its_equation(variant: Variant) -> None:
    head = nn.Linear(D_C, 2).double()
    context = leaf(B, S, D_C)
    other = torch.tensor([1, 0, 6, 3, 5])

    def transcribed() -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for window in range(B):
            h_boundary = torch.softmax(head(context[window, int(BOUNDARIES[window])]), dim=0)[1]
            h_other = torch.softmax(head(context[window, int(other[window])]), dim=0)[1]
            total = total - torch.log(h_boundary) - torch.log(1 - h_other)
        return total / (B if variant == "paper" else 2 * B)

    agree(
        lambda: losses.pseudo_boundary_prediction(head, context, BOUNDARIES, other, variant),
        transcribed,
        (context, *head.parameters()),
    )


@pytest.mark.parametrize("variant", ["release", "paper"])
def test_masked_shot_modeling_equals_its_equation(variant: Variant) -> None:
    head = MaskedShotHead(D_C, D_E).double()
    context, encodings = leaf(B, S, D_C), leaf(B, S, D_E)
    mask = torch.rand(B, S) < 0.3
    mask[:, 2] = True
    transform, decoder = head.predictions["transform"], head.predictions["decoder"]
    assert isinstance(transform, nn.ModuleDict)

    def transcribed() -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        masked = 0
        for window in range(B):
            for m in range(S):
                if mask[window, m]:
                    hidden = F.gelu(transform["dense"](context[window, m]))
                    centered = hidden - hidden.mean()
                    normed = centered / (centered.square().mean() + 1e-12).sqrt()
                    output = decoder(transform["LayerNorm"].weight * normed + transform["LayerNorm"].bias)
                    for d in range(D_E):
                        total = total + (encodings[window, m, d].detach() - output[d]) ** 2
                    masked += 1
        return total / B if variant == "paper" else total / (masked * D_E)

    leaves = (context, *head.parameters())
    agree(lambda: losses.masked_shot_modeling(head, context, encodings, mask, variant), transcribed, leaves)
    # Nothing but the masked shots matters, and the target learns nothing.
    loss = losses.masked_shot_modeling(head, context, encodings, mask, variant)
    (gradient,) = torch.autograd.grad(loss, context)
    assert not gradient[~mask].any()
    assert torch.autograd.grad(
        losses.masked_shot_modeling(head, context, encodings, mask, variant), encodings, allow_unused=True
    ) == (None,)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_similarities_softmax_and_errors_are_computed_in_float32(dtype: torch.dtype) -> None:
    first, second, shots = torch.randn(B, D), torch.randn(B, D), torch.randn(B, S, D)

    def every() -> list[Tensor]:
        return [
            losses.nt_xent(first, second),
            losses.info_nce(first, second),
            losses.shot_scene_matching(shots[:, :2], shots, BOUNDARIES),
            losses.shotcol(first, shots),
            losses.masked_shot_modeling(nn.Identity(), shots, 0.5 * shots, shots[..., 0] > 0),
        ]

    with torch.autocast("cpu", dtype=dtype):
        results = every()
    assert [loss.dtype for loss in results] == [torch.float32] * 5
    assert results == every()
    heads = losses.pseudo_boundary_prediction(nn.Linear(D, 2).to(dtype), shots.to(dtype), BOUNDARIES, BOUNDARIES)
    assert heads.dtype == torch.float32
