"""What torchrun starts: ``torchrun ... -m pipelines.stages.pretrain``."""

import sys

from pipelines.stages.pretrain import main

sys.exit(main())
