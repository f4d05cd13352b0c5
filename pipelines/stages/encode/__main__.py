"""What torchrun starts: ``torchrun ... -m pipelines.stages.encode --name value ...``."""

import sys
from collections.abc import Sequence

from pipelines.errors import BasslError, count
from pipelines.options import parse
from pipelines.stages.encode import EncodeProgress, EncodeSettings, encode_shots


def main(arguments: Sequence[str] | None = None) -> int:
    """Encode with settings from the command line; prints the path of the store."""

    def show(state: EncodeProgress) -> None:
        if state.shots == state.total:
            sys.stderr.write(f"{count(state.shots, 'shot')} of {count(state.total_videos, 'video')}\n")

    try:
        store = encode_shots(parse(EncodeSettings, "python -m pipelines.stages.encode", arguments), show)
        sys.stdout.write(f"{store}\n")
    except (BasslError, ValueError) as error:
        sys.stderr.write(f"encode_shots: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
