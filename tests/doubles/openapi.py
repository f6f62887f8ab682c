"""RunPod's own OpenAPI file as a judge: is this request, is this response, what REST v2 documents?"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

FILE = Path(__file__).parents[1] / "data" / "runpod-openapi-v2.json"
BASE = "urn:runpod"


@dataclass(frozen=True)
class Operation:
    path: str
    """As documented, with {id}."""
    method: str
    spec: dict[str, Any]


@cache
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return loaded


@cache
def _registry() -> Any:
    return Registry().with_resource(BASE, DRAFT202012.create_resource(document()))


def operation(method: str, path: str) -> Operation | None:
    """The documented operation of a concrete path; a fixed path wins over one with {id}."""
    for pattern, methods in sorted(document()["paths"].items(), key=lambda item: item[0].count("{")):
        wanted = re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(pattern))
        if re.fullmatch(wanted, path) and method.lower() in methods:
            return Operation(pattern, method.lower(), methods[method.lower()])
    return None


def _errors(pointer: str, value: object) -> list[str]:
    validator = Draft202012Validator({"$ref": f"{BASE}#{pointer}"}, registry=_registry())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def _escaped(text: str) -> str:
    return text.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")


def request_errors(at: Operation, body: object) -> list[str]:
    """What is wrong with a request's body."""
    pointer = f"/paths/{_escaped(at.path)}/{at.method}/requestBody/content/application~1json/schema"
    return _errors(pointer, body)


def response_errors(at: Operation, status: int, content_type: str, body: bytes) -> list[str]:
    """What is wrong with a response: its status, its content type, its body."""
    found = at.spec["responses"].get(str(status)) or at.spec["responses"].get("default")
    if found is None:
        return [f"status {status} is not documented"]
    where = f"/paths/{_escaped(at.path)}/{at.method}/responses/"
    pointer = where + (str(status) if str(status) in at.spec["responses"] else "default")
    if "$ref" in found:
        pointer = found["$ref"].removeprefix("#")
        found = document()["components"]["responses"][pointer.rsplit("/", 1)[1]]
    content = found.get("content")
    if not content:
        return [f"status {status} has no body"] if body else []
    if content_type not in content:
        return [f"content type {content_type!r}, documented {list(content)}"]
    if content_type == "text/event-stream":
        return []
    return _errors(f"{pointer}/content/{_escaped(content_type)}/schema", json.loads(body))
