"""The least JSON that a tool's schema takes: what the simulated model says when it is made to call a tool (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEEPEST = 16


def minimal(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """A value that `schema` allows: required keys only, the first of every choice. Patterns and formats are not met."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return {} if depth == 0 else None
    root = schema if root is None else root
    if "$ref" in schema:
        return minimal(_resolve(str(schema["$ref"]), root), root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return minimal({**schema[choice][0], "$defs": schema.get("$defs")}, root, depth + 1)
    return _of_type(schema, root, depth)


def _of_type(schema: Mapping[str, Any], root: Any, depth: int) -> Any:
    kind = schema.get("type", "object" if depth == 0 or "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    match kind:
        case "object":
            properties = schema.get("properties") or {}
            return {key: minimal(properties.get(key, {}), root, depth + 1) for key in schema.get("required") or ()}
        case "array":
            item = schema.get("items", {})
            return [minimal(item, root, depth + 1) for _ in range(schema.get("minItems", 0))]
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "x" * max(1, schema.get("minLength", 1))


def _number(schema: Mapping[str, Any]) -> float:
    if "minimum" in schema:
        return float(schema["minimum"]) if schema.get("type") == "number" else int(schema["minimum"])
    if "exclusiveMinimum" in schema:
        return int(schema["exclusiveMinimum"]) + 1
    if "maximum" in schema:
        return min(0, int(schema["maximum"]))
    return 0


def _resolve(reference: str, root: Any) -> Any:
    node = root
    for key in reference.removeprefix("#/").split("/"):
        if not isinstance(node, Mapping) or key not in node:
            return {}
        node = node[key]
    return node
