"""Pseudo-boundaries of a batch: a cumulative sum and an argmin compared with tslearn's DTW, window by window.

    python benchmarks/pseudo_boundary.py

Both sides start from the features of B windows and end with the same pseudo-boundaries, on the CPU. The comparison is
the listing of the paper's appendix D: one call of ``dtw_path_from_metric`` per window, and then the last shot of each
path that is aligned to the first end. It takes features of unit length; ours normalizes them. They are timed
alternately, in wall-clock time, and the fastest run counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from measure import command_line, save
from numpy.typing import NDArray
from torch import Tensor
from tslearn.metrics import dtw_path_from_metric

from pipelines.pretext.pseudo_boundary import discover


def features(windows: int, neighbors: int, dimension: int) -> tuple[Tensor, Tensor]:
    """Unit vectors of windows with a change of scene somewhere: the slow sequence and the whole one."""
    generator = torch.Generator().manual_seed(0)
    S = 2 * neighbors + 1
    scenes = torch.randn(windows, 2, dimension, generator=generator)
    scene = (torch.arange(S) > torch.randint(0, S, (windows, 1), generator=generator)).long()
    shots = scenes[torch.arange(windows)[:, None], scene]
    dense = shots + torch.randn(windows, S, dimension, generator=generator)
    slow = dense[:, [0, -1]] + 0.5 * torch.randn(windows, 2, dimension, generator=generator)
    return F.normalize(slow, dim=-1), F.normalize(dense, dim=-1)


def by_listing(slow: Tensor, dense: Tensor) -> NDArray[np.int64]:
    """Return the paper's listing, and the boundary of each path."""
    cost = (1 - torch.bmm(slow, dense.transpose(1, 2))).numpy()
    paths = [np.asarray(dtw_path_from_metric(matrix, metric="precomputed")[0]) for matrix in cost]
    return np.array([np.flatnonzero(path[:, 0] == 0)[-1] for path in paths])


def seconds(run: Callable[[], object], repeats: int) -> float:
    """Return the fastest of some repeats, each long enough for the clock."""
    calls = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < 0.01:
        run()
        calls += 1
    best = elapsed / calls
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--windows", type=int, default=256, help="B")
    parser.add_argument("--neighbors", type=int, default=8, help="K")
    parser.add_argument("--dimension", type=int, default=128, help="of the features")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    slow, dense = features(arguments.windows, arguments.neighbors, arguments.dimension)
    # This also compiles tslearn's functions.
    agree = int((discover("dtw", slow, dense).numpy() == by_listing(slow, dense)).sum())
    sides: dict[str, Callable[[], object]] = {
        "tslearn, window by window": lambda: by_listing(slow, dense),
        "dtw": lambda: discover("dtw", slow, dense),
        "mean": lambda: discover("mean", slow, dense),
    }
    times = dict.fromkeys(sides, float("inf"))
    for _ in range(arguments.rounds):
        for name, run in sides.items():
            times[name] = min(times[name], seconds(run, 10))
    peer = times["tslearn, window by window"]
    print(
        f"{arguments.windows} windows of {dense.shape[1]} shots, {arguments.dimension} features, CPU, "
        f"{arguments.threads} thread(s); the same boundary in {agree} of {arguments.windows}"
    )
    print(f"  {'':26}{'microseconds':>14}{'windows a second':>18}{'times as fast':>15}")
    for name, value in times.items():
        print(f"  {name:26}{1e6 * value:14,.0f}{arguments.windows / value:18,.0f}{peer / value:15,.1f}")
    result = {
        "setting": vars(arguments) | {"torch": torch.__version__},
        "same_boundary": agree,
        "seconds": times,
        "times_as_fast": {name: peer / value for name, value in times.items()},
    }
    save("pseudo_boundary", result)


if __name__ == "__main__":
    main()
