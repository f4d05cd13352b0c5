"""Seeds of random draws: each is a function of the run's seed, the purpose of the draw, and the epoch or step."""

from __future__ import annotations

import numpy as np

# Purposes, so that no two draws share a seed. Do not change their values: resumed runs depend on them.
WINDOW_ORDER, WINDOW_ROWS, KEYFRAMES, PRETEXT_NOISE, AUGMENTATION = range(5)
PRETRAIN_DROPOUT = 100
EXAMPLE_ORDER, VARIATIONS = 200, 201
FINETUNE_DROPOUT = 300


def torch_seed(*numbers: int) -> int:
    """One seed for a torch generator from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
