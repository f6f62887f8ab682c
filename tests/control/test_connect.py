"""What Claude Code is told: the model's bare name, its window, a cap on output, and nothing that outranks the token."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.report import EngineProbe, PodReport
from control.connect import MODEL_VARIABLES, Serving, environment, serving
from control.errors import Refused, Unreachable
from tests.control.observe.reports import seen

PROBE = EngineProbe(True, None, 0.01, "0.32.0", ("nemotron[1m]", "claude-nemotron"), 1_048_576, None)


def report(probe: EngineProbe, engine: object = None) -> PodReport:
    return replace(seen().report, engine=probe, bootstrap=None if engine is None else {"engine": engine})


def test_the_engines_own_name_bare_and_its_window() -> None:
    assert serving(report(PROBE)) == Serving("nemotron", 1_048_576)


@pytest.mark.parametrize(
    ("probe", "engine", "words"),
    [
        (replace(PROBE, reachable=False, error="refused", models=(), max_model_len=None), None, "refused"),
        (replace(PROBE, reachable=False, models=(), max_model_len=None), {"state": "loading"}, "loading"),
        (replace(PROBE, max_model_len=None), "odd", "no model"),
        (replace(PROBE, models=()), {"state": 3}, "no model"),
    ],
)
def test_without_a_window_nothing_is_said(probe: EngineProbe, engine: object, words: str) -> None:
    """Claude Code would take the model for one of a million tokens."""
    with pytest.raises(Unreachable, match=f"does not serve yet .*{words}"):
        serving(report(probe, engine))


def test_an_engine_that_was_given_up_is_not_waited_for() -> None:
    with pytest.raises(Refused, match="given up"):
        serving(report(replace(PROBE, models=(), max_model_len=None), {"state": "fatal"}))


def test_the_variables() -> None:
    env = environment("https://p-8080.proxy.runpod.net", "pas-client-x", Serving("nemotron", 262_144))
    assert env.set["ANTHROPIC_BASE_URL"] == "https://p-8080.proxy.runpod.net"
    assert env.set["ANTHROPIC_AUTH_TOKEN"] == "pas-client-x"
    assert {env.set[name] for name in MODEL_VARIABLES} == {"nemotron"}
    assert env.set["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "262144"
    assert env.set["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "32000"
    assert env.set["CLAUDE_CODE_ATTRIBUTION_HEADER"] == "0"
    assert "ANTHROPIC_API_KEY" in env.unset
    assert "pas-client-x" not in repr(env)


@pytest.mark.parametrize(("window", "output"), [(1_048_576, "32000"), (65_536, "16384"), (2_048, "1024")])
def test_the_output_leaves_room_for_a_prompt(window: int, output: str) -> None:
    assert environment("u", "t", Serving("m", window)).set["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == output


def test_what_outranks_the_token_is_taken_away_and_the_rest_stays() -> None:
    before = {
        "PATH": "/bin",
        "ANTHROPIC_API_KEY": "sk-ant-x",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "ANTHROPIC_MODEL": "opus",
    }
    after = environment("u", "t", Serving("m", 1_000)).applied(before)
    assert (after["PATH"], after["ANTHROPIC_MODEL"]) == ("/bin", "m")
    assert not {"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK"} & set(after)
    assert before["ANTHROPIC_MODEL"] == "opus"
