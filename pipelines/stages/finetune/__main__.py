"""What torchrun starts: ``torchrun ... -m pipelines.stages.finetune``."""

import sys

from pipelines.stages.finetune import FinetuneSettings, finetune
from pipelines.training.launching import main

sys.exit(main("finetune", FinetuneSettings, finetune))
