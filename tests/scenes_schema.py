"""The JSON schema of scenes.json."""

import json
from pathlib import Path

import pipelines

SCHEMA = json.loads((Path(pipelines.__file__).parent / "scenes.schema.json").read_text())
