"""The pre-training loss of every method and set of tasks, and its settings."""

from itertools import combinations
from typing import Any, get_args

import pytest
import torch

from pipelines.pretext import Method, PretextSettings, PseudoBoundary, Task, losses
from pipelines.pretext.losses import PretextObjective
from pipelines.pretext.pseudo_boundary import discover, draw_noise, sample_group_shots, sample_mask, sample_other_shot
from tests.pretext.tiny_crn import D_C, D_E, S, TinyCRN
from tests.released_layout import head_tensors

B = 6
SUBSETS = [tasks for size in range(1, 5) for tasks in combinations(get_args(Task), size)]


def inputs(settings: PretextSettings, shots: int = S) -> dict[str, Any]:
    dense = torch.randn(B, shots, D_E, requires_grad=True)
    slow = (dense[:, list(settings.slow_positions(shots))] + 0.1 * torch.randn(1)).detach().requires_grad_()
    return {
        "slow": slow,
        "dense": dense,
        "noise": draw_noise(B, shots, torch.Generator().manual_seed(1)),
        "joins": torch.arange(B) % (shots - 1),
    }


def objective(settings: PretextSettings) -> PretextObjective:
    return PretextObjective(settings, D_E, D_C)


@pytest.mark.parametrize("tasks", SUBSETS, ids="+".join)
def test_the_loss_of_any_subset_of_tasks_is_their_weighted_sum(tasks: tuple[Task, ...]) -> None:
    settings = PretextSettings(tasks=tasks, alpha_ssm=0.5, alpha_cgm=2.0, alpha_pp=3.0, alpha_msm=0.25)
    pretext, crn, batch = objective(settings), TinyCRN(), inputs(settings)
    loss = pretext(batch["slow"], batch["dense"], crn, batch["noise"])
    assert set(loss.parts) == set(tasks)
    expected = sum(settings.alphas[name] * part for name, part in loss.parts.items())
    torch.testing.assert_close(loss.total, expected)
    loss.total.backward()
    # Every parameter that is to be trained gets a gradient: DDP waits for it.
    for name, parameter in [*pretext.named_parameters(), *crn.named_parameters()]:
        if parameter.requires_grad and (settings.needs_crn or name.startswith("head")):
            assert parameter.grad is not None, name
    assert (loss.boundary is not None) == (set(tasks) != {"msm"})


def test_the_bassl_loss_is_the_sum_of_its_tasks() -> None:
    settings = PretextSettings(temperature=0.3, masking_rate=0.5)
    pretext, crn, batch = objective(settings), TinyCRN(), inputs(settings)
    slow, dense, noise = batch["slow"], batch["dense"], batch["noise"]
    loss = pretext(slow, dense, crn, noise)
    slow_head, dense_head = pretext.head_nce(slow), pretext.head_nce(dense)
    boundary = discover("dtw", slow_head, dense_head)
    context, mask = crn(dense, None), sample_mask(noise[:, 4], 0.5)
    positive, negative = sample_group_shots(boundary, noise[:, 1], noise[:, 2])
    other = sample_other_shot(boundary, noise[:, 3])
    expected = {
        "ssm": losses.shot_scene_matching(slow_head, dense_head, boundary, 0.3),
        "cgm": losses.contextual_group_matching(pretext.head_cgm, context, positive, negative),
        "pp": losses.pseudo_boundary_prediction(pretext.head_pp, context, boundary, other),
        "msm": losses.masked_shot_modeling(pretext.head_msm, crn(dense, mask), dense, mask),
    }
    assert torch.equal(loss.boundary, boundary)
    assert list(loss.parts) == list(expected)
    for name, part in expected.items():
        torch.testing.assert_close(loss.parts[name], part)


def test_bassl_with_shotcol_adds_its_loss() -> None:
    settings = PretextSettings(method="bassl+simclr-nn", temperature=0.3)
    assert settings.slow_positions(S) == (0, S - 1, S // 2)
    both, crn, batch = objective(settings), TinyCRN(), inputs(settings)
    alone = objective(PretextSettings(temperature=0.3))
    alone.load_state_dict(both.state_dict())
    slow, dense, noise = batch["slow"], batch["dense"], batch["noise"]
    loss, bassl = both(slow, dense, crn, noise), alone(slow[:, :2], dense, crn, noise)
    shotcol = losses.shotcol(both.head_nce(slow[:, 2]), both.head_nce(dense), 0.3)
    torch.testing.assert_close(loss.total, bassl.total + shotcol)
    assert torch.equal(loss.boundary, bassl.boundary)


@pytest.mark.parametrize("method", ["simclr-instance", "simclr-temporal", "simclr-nn"])
def test_shot_level_methods_have_a_contrastive_loss_alone(method: Method) -> None:
    settings = PretextSettings(method=method, temperature=0.3)
    pretext = objective(settings)
    shots = S if method == "simclr-nn" else 1
    assert not settings.needs_crn
    assert settings.slow_positions(S) == (S // 2,)
    slow, dense = torch.randn(B, 1, D_E), torch.randn(B, shots, D_E)
    loss = pretext(slow, dense, TinyCRN(), inputs(settings)["noise"])
    head_slow, head_dense = pretext.head_nce(slow)[:, 0], pretext.head_nce(dense)
    positive = losses.at(head_dense, losses.nearest_other(head_dense)) if shots > 1 else head_dense[:, 0]
    torch.testing.assert_close(loss.total, losses.nt_xent(head_slow, positive, 0.3))
    assert loss.boundary is None
    assert {name.split(".")[0] for name in pretext.state_dict()} == {"head_nce"}


@pytest.mark.parametrize(
    "change",
    [
        *({"pseudo_boundary": method} for method in get_args(PseudoBoundary)),
        {"alignment": "encodings"},
        {"alignment": "encodings", "pseudo_boundary": "mean", "variant": "paper"},
    ],
    ids=lambda change: " ".join(change.values()),
)
def test_windows_are_divided_by_the_chosen_method_in_the_chosen_space(change: dict[str, Any]) -> None:
    settings = PretextSettings(**change)
    pretext, batch = objective(settings), inputs(settings)
    loss = pretext(batch["slow"], batch["dense"], TinyCRN(), batch["noise"], batch["joins"])
    assert torch.isfinite(loss.total)
    spaces = [batch["slow"], batch["dense"]]
    if settings.alignment == "head":
        spaces = [pretext.head_nce(space) for space in spaces]
    expected = discover(settings.pseudo_boundary, *spaces, batch["noise"][:, 0], batch["joins"])
    assert torch.equal(loss.boundary, expected)


def test_without_a_contrastive_loss_the_head_is_a_fixed_projection() -> None:
    """The release divides windows in the space of a head that nothing trains then."""
    pretext = objective(PretextSettings(tasks=("pp",)))
    assert not any(parameter.requires_grad for parameter in pretext.head_nce.parameters())
    assert all(parameter.requires_grad for parameter in objective(PretextSettings()).parameters())
    for settings in (
        PretextSettings(tasks=("msm",)),
        PretextSettings(tasks=("pp",), alignment="encodings"),
        PretextSettings(tasks=("pp",), pseudo_boundary="fixed"),
    ):
        assert not list(objective(settings).head_nce.parameters())


def test_parameters_have_the_released_names_and_shapes() -> None:
    released = {name.removeprefix("loss."): tensor.shape for name, tensor in head_tensors(False).items()}
    del released["head_msm.predictions.bias"]  # the second name of decoder.bias
    state = PretextObjective(PretextSettings(head_dim=6), 24, 16).state_dict()
    assert {name: tensor.shape for name, tensor in state.items()} == released


@pytest.mark.parametrize("variant", ["release", "paper"])
def test_the_objective_compiles_to_one_graph(variant: Any) -> None:
    """There is no graph break; the compiled code itself is not tested."""
    settings = PretextSettings(method="bassl+simclr-nn", variant=variant)
    pretext, crn, batch = objective(settings), TinyCRN(), inputs(settings)
    arguments = batch["slow"], batch["dense"], crn, batch["noise"]
    torch._dynamo.reset()
    compiled = torch.compile(pretext, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*arguments).total, pretext(*arguments).total)


def test_the_objective_trains_in_mixed_precision() -> None:
    settings = PretextSettings(method="bassl+simclr-nn")
    pretext, crn, batch = objective(settings), TinyCRN(), inputs(settings)
    expected = pretext(batch["slow"], batch["dense"], crn, batch["noise"])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = pretext(batch["slow"].bfloat16(), batch["dense"].bfloat16(), crn, batch["noise"])
    assert {part.dtype for part in loss.parts.values()} == {torch.float32}
    torch.testing.assert_close(loss.total, expected.total, rtol=0.05, atol=0.05)
    loss.total.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in pretext.parameters())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"method": "moco"}, "method must be one of bassl, simclr-instance"),
        ({"tasks": ("ssm", "mlm")}, r"tasks\[1\] must be one of ssm, cgm, pp, msm, not 'mlm'"),
        ({"tasks": ("pp", "pp")}, "must be different"),
        ({"tasks": ()}, "needs at least one"),
        ({"pseudo_boundary": "oracle"}, "pseudo_boundary must be one of dtw, mean"),
        ({"alpha_pp": -1.0}, "negative"),
        ({"temperature": float("nan")}, "temperature"),
        ({"alpha_pp": float("inf")}, "finite"),
        ({"masking_rate": 1.5}, "masking_rate"),
        ({"head_dim": 0}, "head_dim"),
    ],
)
def test_inconsistent_settings_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        PretextSettings(**wrong)
    assert "\n" not in str(caught.value)
