"""pod.toml: what is accepted, and the one line that says what is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap import toml_reader
from bootstrap.spec import ROWS, SpecError, load, parse
from tests.bootstrap import settings_table

ROOT = Path(__file__).parents[2]
DOC = ROOT / "docs" / "config.md"
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
    assert spec.overrides == ()


def test_the_whole_example_of_the_documentation_is_read() -> None:
    spec = parse(WHOLE)
    assert spec.served.names == ("nemotron", "claude-nemotron", "claude-nemotron[1m]")
    assert dict(spec.models["qwen3-coder"].speculative)["num_speculative_tokens"] == 12
    assert dict(spec.serve.env) == {"HF_XET_HIGH_PERFORMANCE": "1"}
    assert (spec.swap.on_request, spec.idle.stop_after_minutes, spec.code.sha256[:4]) == (True, 20, "9f86")


@pytest.mark.parametrize("section", settings_table.sections())
def test_the_documentation_says_of_every_setting_what_the_table_says(section: str) -> None:
    heading = f"## [{section}]\n" if section else "## Top level\n"
    part = DOC.read_text(encoding="utf-8").split(heading, 1)[1].split("\n## ", 1)[0]
    assert settings_table.table(section) in part


def settings_read(path: Path) -> Iterator[tuple[str, str]]:
    """Every `spec.section.key` of a source: mypy cannot know which keys there are."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            owner = ast.unparse(node.value.value)
            if re.search(r"(?:^|[._])(?:spec|wanted|running|known)$", owner):
                yield node.value.attr, node.attr


def test_the_settings_that_are_read_are_in_the_table() -> None:
    known = {path[:2] for path in ROWS if len(path) > 1}
    sections = {section for section, _ in known} - {"models"}
    sources = [path for package in ("bootstrap", "control", "console") for path in (ROOT / package).rglob("*.py")]
    read = {where for path in sources for where in settings_read(path) if where[0] in sections}
    assert ("serve", "model") in read
    assert read <= known


VARIABLES = [
    "VL_MODEL",
    "VL_CTX",
    "VL_SPEC",
    "VL_SPEC_N",
    "VL_LOOK_MIN",
    "VL_LOOK_MAX",
    "VL_BATCHED",
    "VL_SEQS",
    "VL_UTIL",
    "VL_KV",
    "VL_DSPARK_N",
    "VL_SWAP",
    "VL_SPEC_AUTO",
    "VL_PRECHARGE",
    "VL_FLASHINFER",
    "VL_NUMA",
    "VL_EP",
    "VL_OPT",
    "VL_FASTOK",
    "VL_KVBYTES",
    "VL_MM_IMAGES",
    "VL_DP",
    "VL_BRIDGE",
    "VL_ALIASES",
    "VL_EFFORT_PATCH",
    "VL_ATTN",
    "VL_ASYNC",
    "VL_DESKTOP",
]


def test_every_variable_of_the_seed_deployment_has_its_setting() -> None:
    assert sorted(row["variable"] for row in ROWS.values() if "variable" in row) == sorted(VARIABLES)


def test_the_table_uses_its_own_words() -> None:
    known = {"is", "default", "required", "least", "above", "most", "options", "wants", "flag", "json", "with", "env"}
    known |= {"env_words", "draft", "methods", "assumed", "variable", "words", "excludes", "restarts", "says"}
    known |= {"type", "pattern", "values", "unique", "shown"}
    for path, row in ROWS.items():
        assert set(row) <= known, path
        assert row["restarts"] in ("nothing", "bridge", "engine", "pod"), path
        if "default" in row and path[-1] != "names":
            assert toml_reader.wrong(row["default"], {**row, "least": min(row.get("least", 0), 0)}) is None, path


@pytest.mark.parametrize(
    ("variable", "text", "place", "value"),
    [
        ("VL_MODEL", "qwen3-coder", "serve.model", "qwen3-coder"),
        ("VL_SEQS", "8", "serve.concurrency", 8),
        ("VL_BATCHED", "", "serve.batched_tokens", None),
        ("VL_KV", "", "serve.kv_dtype", "auto"),
        ("VL_UTIL", "0.9", "serve.memory_utilization", 0.9),
        ("VL_ASYNC", "off", "serve.async_scheduling", False),
        ("VL_FASTOK", "1", "serve.fast_tokenizer", True),
        ("VL_SPEC", "on", "serve.speculation", "ngram"),
        ("VL_OPT", "O3", "serve.optimization", 3),
        ("VL_BRIDGE", "on", "bridge.mode", "translate"),
        ("VL_BRIDGE", "native", "bridge.mode", "native"),
        ("VL_EFFORT_PATCH", "off", "bridge.effort_budgets", False),
        ("VL_SWAP", "off", "swap.on_request", False),
        ("VL_SWAP", "a:nemotron,b:qwen3-coder", "swap.on_request", (("a", "nemotron"), ("b", "qwen3-coder"))),
        ("VL_ALIASES", "claude-sonnet-5 claude-opus-5", "serve.aliases", ("claude-sonnet-5", "claude-opus-5")),
        ("VL_PRECHARGE", "x/a y/b", "preload.models", ("x/a", "y/b")),
        ("VL_DESKTOP", "on", "desktop.enabled", True),
    ],
)
def test_a_variable_wins_over_the_file(variable: str, text: str, place: str, value: object) -> None:
    spec = load(WHOLE, {variable: text, "PATH": "/bin"})
    section, key = place.split(".")
    assert getattr(getattr(spec, section), key) == value
    assert spec.overrides == (variable,)


def test_the_context_of_the_variable_is_that_of_the_model_that_is_served() -> None:
    spec = load(WHOLE, {"VL_CTX": "1000", "VL_MODEL": "qwen3-coder"})
    assert (spec.served.context, spec.models["nemotron"].context) == (1000, None)


def test_a_variable_puts_what_it_excludes_out_of_force() -> None:
    spec = load(WHOLE, {"VL_KVBYTES": "7"})
    assert (spec.serve.kv_cache_bytes, spec.serve.memory_utilization) == (7, None)
    with pytest.raises(SpecError, match=r"the variable VL_(UTIL|KVBYTES): .* exclude each other; keep one"):
        load(WHOLE, {"VL_KVBYTES": "7", "VL_UTIL": "0.9"})
    assert load(WHOLE, {"VL_KVBYTES": "", "VL_UTIL": "0.9"}).serve.memory_utilization == 0.9


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("VL_SEQS", "many", 'the variable VL_SEQS: "concurrency" in [serve] must be a whole number >= 1'),
        ("VL_CTX", "0", 'the variable VL_CTX: "context" in [models.nemotron] must be a whole number >= 1'),
        ("VL_ASYNC", "perhaps", 'the variable VL_ASYNC: "async_scheduling" in [serve] must be true or false'),
        ("VL_MODEL", "nemotrom", 'VL_MODEL: "model" in [serve] has "nemotrom", and there is no [models.nemotrom]'),
        ("VL_SWAP", "a:b", 'VL_SWAP: "on_request" in [swap] has "b", and there is no [models.b]'),
        ("VL_ALIASES", "a a", 'the variable VL_ALIASES: "aliases" in [serve] must be a list of different names'),
        ("VL_OPT", "4", 'the variable VL_OPT: "optimization" in [serve] must be a whole number from 0 to 3'),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(variable: str, text: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(WHOLE, {variable: text})
    assert says in str(caught.value)
    assert caught.value.line is None


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(VARIABLES), st.text(max_size=20), max_size=4))
def test_any_variable_is_taken_or_refused_by_its_name(environ: dict[str, str]) -> None:
    try:
        said = load(WHOLE, environ).overrides
    except SpecError as error:
        said = tuple(sorted(environ)) if any(f"the variable {name}:" in str(error) for name in environ) else ()
    assert said == tuple(sorted(environ))


def test_names_that_a_swap_routes_belong_to_their_model() -> None:
    spec = parse(WHOLE.replace("on_request = true", 'on_request = { coder = "qwen3-coder" }'))
    assert spec.names("qwen3-coder") == ("qwen3-coder", "coder")
    aliased = load(WHOLE, {"VL_ALIASES": "claude-sonnet-5"})
    assert aliased.names("qwen3-coder", in_force="qwen3-coder") == ("qwen3-coder", "claude-sonnet-5")
    assert "claude-sonnet-5" not in aliased.names("nemotron", in_force="qwen3-coder")
    assert 'the name "nemotron" belongs to [models.nemotron] already' in str(
        fault(WHOLE.replace("on_request = true", 'on_request = { nemotron = "qwen3-coder" }'))
    )


def test_the_same_file_is_the_same_spec() -> None:
    assert parse(WHOLE) == parse(WHOLE)
    assert parse(WHOLE) != parse(WHOLE.replace("images = 4", "images = 5"))
    assert parse(WHOLE).restarting() == parse(WHOLE)


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
        (
            "[preload]",
            '[models.x]\nrepo = "x/x"\npatches = { magic = "1" }\n[preload]',
            '"patches" in [models.x] must be',
        ),
        ('sha256 = "9f', 'sha256 = "xx', "must be a SHA-256 digest"),
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
WRITTEN = sorted((".".join(path[:-1]), path[-1]) for path in ROWS if len(path) > 1 and "*" not in path)


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
