"""Prints as JSON what torch can do with the GPUs. Run by the engine's interpreter, before the engine."""

import importlib
import json
import os
from typing import Any

os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # the host is asked for, not the share of one engine
answer: dict[str, Any] = {"cuda": None, "count": 0, "error": None}
try:
    torch = importlib.import_module("torch")
except ImportError as error:
    answer = {"error": f"no torch: {error}"}
else:
    answer["cuda"] = torch.version.cuda
    try:
        answer["count"] = torch.cuda.device_count()
        for index in range(answer["count"]):
            torch.zeros(1, device=f"cuda:{index}")  # a GPU that is listed may still be of no use
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
        answer["error"] = str(error)
print(json.dumps(answer))  # noqa: T201
