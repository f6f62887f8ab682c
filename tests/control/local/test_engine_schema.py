from __future__ import annotations

from typing import Any

import pytest

from control.local.engine_schema import minimal


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, {}),
        ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, {"a": "x"}),
        ({"type": "string", "minLength": 3}, "xxx"),
        ({"type": "string", "enum": ["src", "lib"]}, "src"),
        ({"const": 5}, 5),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "integer", "maximum": -2}, -2),
        ({"type": "number", "minimum": 0.5}, 0.5),
        ({"type": "boolean"}, False),
        ({"type": ["null", "string"]}, None),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [0, 0]),
        ({"type": "array"}, []),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 0),
        (
            {
                "$defs": {"P": {"type": "string"}},
                "type": "object",
                "properties": {"p": {"$ref": "#/$defs/P"}},
                "required": ["p"],
            },
            {"p": "x"},
        ),
        (
            {"type": "object", "properties": {"o": {"type": "object", "required": ["k"]}}, "required": ["o"]},
            {"o": {"k": "x"}},
        ),
        ({"$ref": "#/nowhere"}, "x"),
    ],
)
def test_the_least_value_of_each_kind_of_schema(schema: dict[str, Any], value: object) -> None:
    assert minimal(schema) == value


def test_a_schema_that_refers_to_itself_ends() -> None:
    loop = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    depth = 0
    value = minimal(loop)
    while isinstance(value, dict) and value:
        value = value["next"]
        depth += 1
    assert 0 < depth < 20
