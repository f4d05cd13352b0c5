"""What torchrun starts: ``torchrun ... -m pipelines.stages.pretrain``."""

import sys

from pipelines.stages.pretrain import PretrainSettings, pretrain
from pipelines.training.launching import main

sys.exit(main("pretrain", PretrainSettings, pretrain))
