"""pod.toml: what is accepted, and the one line that says what is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.spec import PodSpec, SpecError, not_in_force, parse

DOC = Path(__file__).parents[2] / "docs" / "config.md"
MINIMAL = '[serve]\nmodel = "a"\n[models.a]\nrepo = "x/a"\n'
WHOLE = re.findall(r"```toml\n(serial.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)[0]


def fault(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parse(text)
    return caught.value


def test_the_smallest_file_leaves_everything_to_the_defaults() -> None:
    spec = parse(MINIMAL)
    assert (spec.serial, spec.served.names, spec.served.repo) == (0, ("a",), "x/a")
    assert (spec.serve.context, spec.serve.prefix_caching, spec.serve.kv_dtype) == (None, None, "auto")
    assert (spec.bridge.ping_seconds, spec.bridge.max_streams, spec.bridge.effort.xhigh) == (15.0, 256, 32_768)
    assert not_in_force(spec) == ()


def test_the_whole_example_of_the_documentation_is_read() -> None:
    spec = parse(WHOLE)
    assert spec.served.names == ("nemotron", "claude-nemotron", "claude-nemotron[1m]")
    assert dict(spec.models["qwen3-coder"].speculative)["num_speculative_tokens"] == 12
    assert dict(spec.serve.env) == {"HF_XET_HIGH_PERFORMANCE": "1"}
    assert "[idle] stop_after_minutes" in not_in_force(spec)


def written(kind: type = PodSpec, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Every (section, key) that can be written."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is Annotated:
            yield ".".join(path), name
        elif isinstance(hint, type):
            yield from written(hint, (*path, name))
        else:
            yield from written(get_args(hint)[1], (*path, name, "<key>"))


def test_the_documentation_has_every_section_and_key() -> None:
    text = DOC.read_text(encoding="utf-8")
    for section, key in written():
        heading = f"## [{section}]\n" if section else "## Top level\n"
        part = text.split(heading, 1)[1].split("\n## ", 1)[0]
        assert f"| `{key}` |" in part, (section, key)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("concurrency", "concurency", 'line 6: unknown key "concurency" in [serve]; did you mean "concurrency"?'),
        ("[swap]", "[swop]", 'unknown section "swop"; did you mean "swap"?'),
        ("serial", "cereal", 'line 1: unknown section or key "cereal"; did you mean "serial"?'),
        ('model = "nemotron"', 'model = "nemotrom"', "there is no [models.nemotrom] (there is: nemotron, qwen3-coder)"),
        ('model = "nemotron"', "", '[serve] needs "model"'),
        ("images = 4", "images = true", '"images" in [serve] must be a whole number >= 0'),
        ("images = 4", "images = -1", '"images" in [serve] must be a whole number >= 0'),
        ("concurrency = 32", 'concurrency = "32"', '"concurrency" in [serve] must be a whole number >= 1'),
        ("memory_utilization = 0.85", "memory_utilization = 1.2", "must be a number > 0 and <= 1"),
        ("memory_utilization = 0.85", "memory_utilization = nan", "must be a number > 0 and <= 1"),
        ("memory_utilization = 0.85", "memory_utilization = 0.85\nkv_cache_bytes = 5", "exclude each other"),
        ("extra_args = []", 'extra_args = ["--port=1"]', "without --api-key, --host, --port, "),
        (
            "extra_args = []",
            'extra_args = ["--served_model_name", "x"]',
            "--served-model-name, --uds, which bootstrap sets itself",
        ),
        ('{ HF_XET_HIGH_PERFORMANCE = "1" }', "{ A = 1 }", '"env" in [serve] must be a table of texts'),
        ('{ HF_XET_HIGH_PERFORMANCE = "1" }', '{ PASSERELLE_X = "1" }', "not PASSERELLE_… like ours"),
        ('names = ["qwen3-coder"]', "names = []", '"names" in [models.qwen3-coder] must be a list of one or more'),
        ('names = ["qwen3-coder"]', 'names = ["nemotron"]', 'the name "nemotron" belongs to [models.nemotron] already'),
        ('names = ["qwen3-coder"]', 'names = [""]', "must be a list of one or more different names"),
        ('repo = "nvidia', 'rep = "nvidia', 'unknown key "rep" in [models.nemotron]; did you mean "repo"?'),
        ("[bridge.effort]\nlow", "[bridge.effort]\nlower", 'unknown key "lower" in [bridge.effort]'),
        ('guard = "refuse"', 'guard = "refused"', '"guard" in [bridge] must be one of "off", "warn", "refuse"'),
        ("ping_seconds = 15", "ping_seconds = 0", '"ping_seconds" in [bridge] must be a number > 0'),
        ("stop_after_minutes = 20", "stop_after_minutes = -1", "must be a number > 0"),
        ('mirror = "hf://', 'mirror = "ftp://', '"mirror" in [log] must be "hf://…" or "dir://…"'),
        ('models = ["qwen3-coder"]', 'models = ["qwen"]', "there is no [models.qwen]"),
        ("enabled = false", 'enabled = "no"', '"enabled" in [desktop] must be true or false'),
        ("prompt_lookup_min = 3", "prompt_lookup_min = [3]", "must be a table of texts, numbers, true or false"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, says: str) -> None:
    text = WHOLE.replace(old, new, 1)
    assert text != WHOLE
    error = fault(text)
    assert says in str(error)
    assert str(error).startswith("pod.toml line ")
    assert str(error).endswith(" (docs/config.md)")
    assert error.line is not None
    assert error.line <= len(text.splitlines())


def test_the_parts_of_an_error() -> None:
    error = fault(MINIMAL + "[serve.env]\n" + "[idle]\nstop_after = 3\n")
    assert (error.line, error.key, error.nearest) == (7, "stop_after", "stop_after_minutes")
    missing = fault("serial = 1\n")
    assert (missing.line, str(missing)) == (None, 'pod.toml: [serve] needs "model" (docs/config.md)')


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (MINIMAL + "x = = 1\n", 5),
        ('[serve]\nmodel = "a\n', 2),
        ("[serve\n", 1),
        ("a = 1\na = 2\n", 2),
        ("a = [1,\n2\n", 2),
        ("a = " + "1" * 5000, None),
    ],
)
def test_what_is_not_toml_keeps_its_line(text: str, line: int | None) -> None:
    error = fault(text)
    assert error.line == line
    assert "not TOML" in str(error)
    assert "(at " not in str(error)


def test_tables_of_the_wrong_kind_are_errors_of_ours() -> None:
    assert '"serve" must be a table' in str(fault("serve = 1"))
    assert '"effort" must be a table' in str(fault(MINIMAL + "[bridge]\neffort = 1\n"))
    assert '"a" must be a table' in str(fault('models = { a = 1 }\n[serve]\nmodel = "a"\n'))


words = st.sampled_from(
    [
        *"[]{}=.,\"'\n#",
        "serve",
        "model",
        "models",
        '"a"',
        "[serve]\n",
        "names",
        "repo",
        "0.5",
        "-1",
        "true",
        "\n\n",
        "é",
    ]
)


def complaint(text: str) -> SpecError | None:
    try:
        parse(text)
    except SpecError as error:
        return error
    return None


@settings(deadline=None)
@given(st.one_of(st.lists(words, max_size=30).map(" ".join), st.text(max_size=200)))
def test_any_text_is_read_or_refused_by_a_spec_error(text: str) -> None:
    error = complaint(MINIMAL + text)
    assert error is None or error.line is None or 1 <= error.line <= len((MINIMAL + text).split("\n"))


numbers = st.one_of(st.integers(-5, 5), st.floats(-2, 2)).map(repr)
literals = st.recursive(
    st.one_of(st.sampled_from(["true", "false", '""', '"a"', '"--port"', "{ a = 1 }"]), numbers),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=4,
)
WRITTEN = sorted(where for where in written() if where[0] and where[0] != "models.<key>")


@settings(deadline=None)
@given(st.sampled_from(WRITTEN), literals)
def test_any_value_of_any_key_is_taken_or_refused_by_its_name(where: tuple[str, str], literal: str) -> None:
    section, key = where
    tables = {"serve": {"model": '"a"'}, "models.a": {"repo": '"x"'}}
    tables.setdefault(section, {})[key] = literal
    text = "".join(
        f"[{name}]\n" + "".join(f"{one} = {value}\n" for one, value in keys.items()) for name, keys in tables.items()
    )
    error = complaint(text)
    assert error is None or f'"{key}"' in str(error)


def test_a_key_that_cannot_be_a_name_is_refused_where_it_would_be_one() -> None:
    error = fault('[serve]\nmodel = "-x"\n[models.-x]\nrepo = "x/a"\n')
    assert '"names" in [models.-x] must be a list of one or more different names' in str(error)
    assert error.line == 3
