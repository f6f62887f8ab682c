"""tables.toml: what is known of engines, clients and tools beside the code, read once."""

import tomllib
from importlib.resources import files
from typing import Any

TABLES: dict[str, dict[str, Any]] = tomllib.loads(files("bridge").joinpath("tables.toml").read_text("utf-8"))
USAGE = files("bridge").joinpath("usage.txt").read_text("utf-8")  # what `passerelle-bridge --help` begins with
