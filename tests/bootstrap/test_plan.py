"""What a publish restarts: by setting, in combinations, and never more than it must."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootstrap.plan import Action, Plan, plan
from bootstrap.spec import ROWS, load, parse

TEXT = """
serial = 1
[serve]
model = "a"
concurrency = 8
[models.a]
repo = "x/a"
[models.b]
repo = "x/b"
context = 1000
[bridge]
ping_seconds = 15
[swap]
strategy = "restart"
[idle]
stop_after_minutes = 20
"""
RUNNING = parse(TEXT)
ACTIONS: dict[str, Action] = {
    "nothing": "nothing",
    "bridge": "reload bridge",
    "engine": "restart engine",
    "pod": "needs a new pod",
}
VALUES: dict[str, Any] = {
    "flag": "true",
    "number": "0.5",
    "texts": '["x/y"]',
    "wholes": '["1"]',
    "names": '["z"]',
    "aliases": '["z"]',
    "args": '["--z"]',
    "env": '{ Z = "1" }',
    "pairs": '{ method = "mtp" }',
    "patches": '{ transformers = "5.16.1" }',
    "routes": "true",
    "store": '"dir:///z"',
    "digest": f'"{"0" * 64}"',
    "text": '"z"',
    "whole": "3",
}
# They say nothing alone: of speculation, which is off here, and of the context of a model that has its own none.
ALONE = {"draft_tokens", "dspark_tokens", "lookup_min", "lookup_max", "speculation_auto"}


def changed(path: tuple[str, ...], value: str) -> Plan:
    tables: dict[str, dict[str, str]] = {
        "serve": {"model": '"a"', "concurrency": "8"},
        "models.a": {"repo": '"x/a"'},
        "models.b": {"repo": '"x/b"', "context": "1000"},
    }
    before = written(tables)
    tables.setdefault(".".join("a" if part == "*" else part for part in path[:-1]), {})[path[-1]] = value
    return plan(parse(before), parse(written(tables)))


def written(tables: dict[str, dict[str, str]]) -> str:
    return "".join(f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items()) for name, keys in tables.items())


@pytest.mark.parametrize("path", [path for path in ROWS if path[-1] not in ALONE and path != ("serial",)])
def test_each_setting_restarts_what_the_table_says(path: tuple[str, ...]) -> None:
    row = ROWS[path]
    value = f'"{row["options"][-1]}"' if "options" in row else VALUES[row["is"]]
    if path == ("serve", "model"):
        assert changed(path, '"b"') == Plan("swap model", ("[serve] model: a -> b",), True)
        return
    if row["is"] == "flag" and row.get("default") is True:
        value = "false"
    result = changed(path, value)
    assert result.action == ACTIONS[row["restarts"]], result
    assert len(result.reasons) == 1
    assert f"] {path[-1]}: " in result.reasons[0]


@pytest.mark.parametrize("name", sorted(ALONE - {"speculation_auto"}))
def test_how_to_speculate_restarts_nothing_where_nothing_is_speculated(name: str) -> None:
    assert changed(("serve", name), "3").action == "nothing"


def test_the_serial_is_no_change() -> None:
    assert plan(RUNNING, parse(TEXT.replace("serial = 1", "serial = 2"))) == Plan("nothing", ())


def test_another_spelling_of_the_same_restarts_nothing_and_says_what_differs() -> None:
    spelled = parse(TEXT.replace("concurrency = 8", 'kv_dtype = "auto"\nextra_args = ["--max-num-seqs", "8"]'))
    assert plan(spelled, spelled).action == "nothing"
    own = parse(TEXT.replace("[bridge]\nping_seconds = 15\n", ""))
    assert plan(RUNNING, own) == Plan("nothing", ())


def test_a_model_that_is_not_served_costs_nothing_unless_it_sleeps_beside() -> None:
    other = TEXT.replace("context = 1000", "context = 2000")
    assert plan(RUNNING, parse(other)).action == "nothing"
    sleeping = TEXT.replace('"restart"', '"sleep"'), other.replace('"restart"', '"sleep"')
    before, after = map(parse, sleeping)
    assert plan(before, after).action == "restart engine"


def test_a_swap_together_with_another_engine_setting_is_a_restart() -> None:
    both = TEXT.replace('model = "a"', 'model = "b"').replace("concurrency = 8", "concurrency = 9")
    result = plan(RUNNING, parse(both))
    assert (result.action, result.reasons) == (
        "restart engine",
        ("[serve] model: a -> b", "[serve] concurrency: 8 -> 9"),
    )


def test_a_new_model_is_swapped_to_and_one_that_is_gone_is_left() -> None:
    new = TEXT.replace('model = "a"', 'model = "c"') + '[models.c]\nrepo = "x/c"\n'
    assert plan(RUNNING, parse(new)).action == "swap model"
    gone = TEXT.replace('model = "a"', 'model = "b"').replace('[models.a]\nrepo = "x/a"\n', "")
    assert plan(RUNNING, parse(gone)).action == "swap model"


def test_more_gpus_than_there_are_need_a_new_pod() -> None:
    more = parse(TEXT.replace("concurrency = 8", "concurrency = 8\ntensor_parallel = 2"))
    assert plan(RUNNING, more, gpu_count=1).action == "needs a new pod"
    assert plan(RUNNING, more, gpu_count=2).action == "restart engine"
    assert plan(RUNNING, more).action == "restart engine"


def test_what_a_variable_holds_restarts_nothing_when_the_file_changes_under_it() -> None:
    environ, other = {"VL_SEQS": "4"}, TEXT.replace("concurrency = 8", "concurrency = 9")
    assert plan(load(TEXT, environ), load(other, environ)) == Plan("nothing", ())


def test_secrets_of_the_engine_are_counted_and_not_said() -> None:
    text = TEXT.replace("concurrency = 8", 'env = { HF_TOKEN = "hf_secret", A = "1" }')
    result = plan(RUNNING, parse(text))
    assert "hf_secret" not in " ".join(result.reasons)
    assert "HF_TOKEN" in " ".join(result.reasons)


CHANGES = {
    "concurrency = 8": "concurrency = 9",
    "ping_seconds = 15": "ping_seconds = 5",
    '"restart"': '"sleep"',
    "context = 1000": "context = 900",
    '"x/a"': '"x/z"',
    'model = "a"': 'model = "b"',
}


@given(st.sets(st.sampled_from(sorted(CHANGES))))
def test_there_is_no_change_without_its_reason_and_no_way_back_that_costs_less(places: set[str]) -> None:
    text = TEXT
    for place in places:
        text = text.replace(place, CHANGES[place])
    there, back = plan(RUNNING, parse(text)), plan(parse(text), RUNNING)
    assert len(there.reasons) == len(places) == len(back.reasons)
    assert there.reloads_bridge is back.reloads_bridge
    if '"restart"' not in places:
        assert there.action == back.action
