"""Several processes: the loss and the gradients of one process with all windows."""

from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pipelines.pretext import PretextSettings
from pipelines.pretext.losses import PretextObjective, rows_of_all
from pipelines.pretext.pseudo_boundary import draw_noise
from pipelines.training.distributed import mean_over_processes
from tests.pretext.tiny_crn import D_C, D_E, S, TinyCRN

WINDOWS, PROCESSES = 8, 2
CASES = [
    PretextSettings(method="bassl+simclr-nn"),
    PretextSettings(method="bassl+simclr-nn", variant="paper", pseudo_boundary="mean", alignment="encodings"),
    PretextSettings(method="simclr-instance"),
]


def losses_and_gradients(settings: PretextSettings, rank: int, processes: int) -> dict[str, torch.Tensor]:
    """A process's share of a step: its block of the windows through a shared layer, the CRN and the heads."""
    torch.manual_seed(0)
    encoder = torch.nn.Linear(5, D_E).double()
    crn, pretext = TinyCRN().double(), PretextObjective(settings, D_E, D_C).double()
    dense = torch.randn(WINDOWS, S, 5, dtype=torch.float64)
    slow = dense[:, list(settings.slow_positions(S))] + 0.3 * torch.randn(1, dtype=torch.float64)
    noise = draw_noise(WINDOWS, S, torch.Generator().manual_seed(1))  # the halves have 5 and 8 masked shots
    block = slice(rank * WINDOWS // processes, (rank + 1) * WINDOWS // processes)
    loss = pretext(encoder(slow[block]), encoder(dense[block]), crn, noise[block])
    loss.total.backward()
    results = {f"loss {name}": part.detach() for name, part in loss.parts.items()}
    for name, module in {"encoder": encoder, "crn": crn, "pretext": pretext}.items():
        results |= {f"{name}.{key}": p.grad for key, p in module.named_parameters() if p.grad is not None}
    return results


def step(rank: int, folder: Path) -> None:
    meeting = f"file://{folder}/rendezvous"
    dist.init_process_group("gloo", meeting, timedelta(minutes=2), rank=rank, world_size=PROCESSES)
    results: list[Any] = []
    for settings in CASES:
        shares = losses_and_gradients(settings, rank, PROCESSES)
        for share in shares.values():  # as DDP does
            dist.all_reduce(share)
            share /= PROCESSES
        results.append(shares)
    local = torch.arange(6.0).view(3, 2) + 10 * rank
    everything, offset = rows_of_all(local)
    results.append({"everything": everything, "offset": offset, "mean": mean_over_processes(torch.tensor(float(rank)))})
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The results of two processes, of which this one is the first."""
    folder = tmp_path_factory.mktemp("gloo")
    second = get_context("spawn").Process(target=step, args=(1, folder))
    second.start()
    step(0, folder)
    second.join()
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(PROCESSES)]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_two_processes_with_half_batches_give_losses_and_gradients_of_the_full_batch(
    processes: list[Any], case: int
) -> None:
    expected = losses_and_gradients(CASES[case], 0, 1)
    assert any(name.startswith("encoder") for name in expected)
    for results in processes:
        assert results[case].keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(results[case][name], value, rtol=1e-9, atol=1e-12, msg=name)


def test_gathered_rows_are_in_the_order_of_ranks(processes: list[Any]) -> None:
    first = torch.arange(6.0).view(3, 2)
    for rank, results in enumerate(processes):
        assert torch.equal(results[-1]["everything"], torch.cat([first, first + 10]))
        assert results[-1]["offset"] == 3 * rank
        assert float(results[-1]["mean"]) == 0.5
