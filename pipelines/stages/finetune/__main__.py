"""What torchrun starts: ``torchrun ... -m pipelines.stages.finetune``."""

import sys

from pipelines.stages.finetune import main

sys.exit(main())
