"""The line of a key in any of TOML's spellings."""

from __future__ import annotations

import pytest

from bootstrap.toml_lines import line_of

TEXT = '''serial = 1
[serve]
# model = "no"
model = "a"   # [idle]
note = """
model = "not this"
[bridge]
"""
env = { A = "1",
  B = "2" }
args = [
  "--x=1",
  "model",
]
[models."qwen3.5-coder"]
repo = 'x'
[ bridge . effort ]
"low" = 1
log.mirror = "x"
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("serial",), 1),
        (("serve",), 2),
        (("serve", "model"), 4),
        (("serve", "note"), 5),
        (("serve", "env", "B"), 9),
        (("serve", "args"), 11),
        (("serve", "missing"), 2),
        (("models",), 15),
        (("models", "qwen3.5-coder", "repo"), 16),
        (("bridge",), 17),
        (("bridge", "effort", "low"), 18),
        (("bridge", "effort", "log", "mirror"), 19),
        (("idle", "stop_after_minutes"), None),
    ],
)
def test_line_of(path: tuple[str, ...], line: int | None) -> None:
    assert line_of(TEXT, path) == line
