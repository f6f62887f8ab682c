"""The engine's command line and both environments."""

from __future__ import annotations

import argparse
import json

import pytest

from bootstrap.command import bridge_env, engine_argv, engine_env
from bootstrap.spec import load, parse

FULL = parse("""
[serve]
model = "q"
context = 1000
concurrency = 32
batched_tokens = 8192
kv_cache_bytes = 7
kv_dtype = "fp8"
prefix_caching = true
async_scheduling = false
images = 4
videos = 0
tensor_parallel = 2
attention = "FLASH_ATTN"
optimization = 3
numa_nodes = ["0", "1"]
flashinfer_sampler = false
fast_tokenizer = true
block_size = 16
num_gpu_blocks = 160
extra_args = ["--seed", "1"]
env = { LANG = "C", HF_HUB_OFFLINE = "1" }
[models.q]
repo = "x/q"
revision = "main"
names = ["q", "claude-q[1m]"]
context = 262_144
args = ["--trust-remote-code"]
reasoning_parser = "qwen3"
tool_parser = "hermes"
speculative = { method = "ngram", num_speculative_tokens = 12 }
[bridge]
ping_seconds = 0.5
unknown_model = "refuse"
""")
BARE = parse('[serve]\nmodel = "q"\nmemory_utilization = 0.85\n[models.q]\nrepo = "x/q"\n')
INHERITED = {
    "PATH": "/bin",
    "HF_TOKEN": "hf_x",
    "HF_HUB_OFFLINE": "1",
    "RUNPOD_API_KEY": "rpa_x",
    "PASSERELLE_CLIENT_TOKEN": "client-secret",
    "PASSERELLE_OPERATOR_TOKEN": "operator-secret",
}


def test_what_the_spec_leaves_out_is_left_out() -> None:
    assert engine_argv(BARE, "q", ("vllm",), 8000) == (
        *("vllm", "serve", "x/q", "--host", "127.0.0.1", "--port", "8000", "--served-model-name", "q"),
        *("--gpu-memory-utilization", "0.85", "--enable-prompt-tokens-details"),
    )


def test_everything_that_the_spec_says_is_a_flag_and_the_models_then_the_extra_ones_come_last() -> None:
    assert engine_argv(FULL, "q", ("python", "-m", "vllm"), 8001) == (
        *("python", "-m", "vllm", "serve", "x/q", "--host", "127.0.0.1", "--port", "8001"),
        *("--served-model-name", "q", "claude-q[1m]"),
        *("--max-model-len", "262144", "--max-num-seqs", "32"),
        *("--max-num-batched-tokens", "8192", "--kv-cache-memory-bytes", "7", "--kv-cache-dtype", "fp8"),
        *("--enable-prefix-caching", "--no-async-scheduling", "--limit-mm-per-prompt", '{"image":4,"video":0}'),
        *("--tensor-parallel-size", "2", "--attention-backend", "FLASH_ATTN", "--optimization-level", "3"),
        *("--numa-bind-nodes", "0", "1", "--block-size", "16", "--num-gpu-blocks-override", "160"),
        *("--revision", "main", "--reasoning-parser", "qwen3"),
        *("--tool-call-parser", "hermes", "--enable-auto-tool-choice"),
        *("--speculative-config", '{"method":"ngram","num_speculative_tokens":12}'),
        *("--enable-prompt-tokens-details", "--trust-remote-code", "--seed", "1"),
    )


def test_the_names_do_not_swallow_what_follows_them() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--served-model-name", nargs="+")
    known, _ = parser.parse_known_args(engine_argv(FULL, "q", (), 1)[1:])
    assert (known.model, known.served_model_name) == ("x/q", ["q", "claude-q[1m]"])


def test_the_engine_gets_no_token_of_ours_and_may_go_online() -> None:
    env = engine_env(BARE, "q", INHERITED)
    assert env == {"PATH": "/bin", "HF_TOKEN": "hf_x", "PYTHONUNBUFFERED": "1"}
    assert engine_env(FULL, "q", INHERITED)["HF_HUB_OFFLINE"] == "1"


def test_the_bridge_gets_its_wiring_and_no_other_secret() -> None:
    env = bridge_env(FULL, {**INHERITED, "PASSERELLE_STALE": "x"}, 5, "http://127.0.0.1:9", "/run/b.sock")
    effort = json.loads(env.pop("PASSERELLE_EFFORT"))
    assert effort == {"low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768}
    assert json.loads(env.pop("PASSERELLE_MODEL_NAMES")) == ["q", "claude-q[1m]"]
    assert env == {
        "PATH": "/bin",
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
        "PASSERELLE_LISTEN_FD": "5",
        "PASSERELLE_ENGINE_URL": "http://127.0.0.1:9",
        "PASSERELLE_BOOTSTRAP_SOCKET": "/run/b.sock",
        "PASSERELLE_CLIENT_TOKEN": "client-secret",
        "PASSERELLE_OPERATOR_TOKEN": "operator-secret",
        "PASSERELLE_PING_SECONDS": "0.5",
        "PASSERELLE_MAX_STREAMS": "256",
        "PASSERELLE_UNKNOWN_MODEL": "refuse",
        "PASSERELLE_MODE": "translate",
        "PASSERELLE_GUARD": "off",
        "PASSERELLE_SWAP": "off",
    }


def test_what_the_settings_say_is_in_the_engines_environment() -> None:
    env = engine_env(FULL, "q", {})
    assert (env["VLLM_USE_FLASHINFER_SAMPLER"], env["VLLM_USE_FASTOKENS"]) == ("0", "1")
    assert "NCCL_P2P_DISABLE" not in env


def test_peer_to_peer_is_off_where_several_gpus_cannot_or_where_the_setting_says_so() -> None:
    assert engine_env(FULL, "q", {}, peer_to_peer=False)["NCCL_P2P_DISABLE"] == "1"
    assert "NCCL_P2P_DISABLE" not in engine_env(BARE, "q", {}, peer_to_peer=False)
    off = parse(TWO.replace("[models.a]", "peer_to_peer = false\n[models.a]"))
    assert engine_env(off, "a", {})["NCCL_P2P_DISABLE"] == "1"
    on = parse(TWO.replace("[models.a]", "peer_to_peer = true\ntensor_parallel = 2\n[models.a]"))
    assert engine_env(on, "a", {}, peer_to_peer=False)["NCCL_P2P_DISABLE"] == "0"


TWO = """
[serve]
model = "a"
aliases = ["claude-sonnet-5"]
[models.a]
repo = "x/a"
[models.b]
repo = "x/b"
context = 500
speculative = { method = "mtp", num_speculative_tokens = 3 }
[swap]
on_request = { bee = "b" }
strategy = "sleep"
"""


def flag(argv: tuple[str, ...], name: str) -> str | None:
    return argv[argv.index(name) + 1] if name in argv else None


def test_the_engine_of_any_model_can_be_built_and_each_answers_to_its_names_and_the_aliases() -> None:
    argv = engine_argv(parse(TWO), "b", ("vllm",), 1)
    assert argv[argv.index("--served-model-name") + 1 :][:3] == ("b", "bee", "claude-sonnet-5")
    assert (flag(argv, "--max-model-len"), argv[2]) == ("500", "x/b")


def test_engines_that_sleep_have_the_flag_and_the_routes() -> None:
    spec = parse(TWO)
    assert "--enable-sleep-mode" in engine_argv(spec, "a", (), 1)
    assert engine_env(spec, "a", {})["VLLM_SERVER_DEV_MODE"] == "1"
    alone = spec.restarting()
    assert "--enable-sleep-mode" not in engine_argv(alone, "a", (), 1)
    assert "VLLM_SERVER_DEV_MODE" not in engine_env(alone, "a", {})


@pytest.mark.parametrize(
    ("environ", "key", "config"),
    [
        ({}, "b", {"method": "mtp", "num_speculative_tokens": 3}),
        ({}, "a", None),
        ({"VL_SPEC": "off"}, "b", None),
        ({"VL_SPEC_AUTO": "off"}, "b", None),
        (
            {"VL_SPEC": "on"},
            "a",
            {"method": "ngram", "num_speculative_tokens": 12, "prompt_lookup_min": 3, "prompt_lookup_max": 8},
        ),
        (
            {"VL_SPEC": "ngram", "VL_SPEC_N": "24", "VL_LOOK_MIN": "2", "VL_LOOK_MAX": "4", "VL_DSPARK_N": "9"},
            "b",
            {"method": "ngram", "num_speculative_tokens": 24, "prompt_lookup_min": 2, "prompt_lookup_max": 4},
        ),
        ({"VL_SPEC": "mtp"}, "a", {"method": "mtp"}),
        ({"VL_SPEC_N": "5"}, "b", {"method": "mtp", "num_speculative_tokens": 5}),
        ({"VL_SPEC": "dspark"}, "a", {"method": "dspark", "num_speculative_tokens": 8}),
        ({"VL_SPEC": "dspark", "VL_DSPARK_N": "4"}, "a", {"method": "dspark", "num_speculative_tokens": 4}),
    ],
)
def test_speculation(environ: dict[str, str], key: str, config: dict[str, object] | None) -> None:
    said = flag(engine_argv(load(TWO, environ), key, (), 1), "--speculative-config")
    assert (json.loads(said) if said else None) == config


def test_a_speculation_of_the_models_own_words_is_left_as_it_is() -> None:
    own = TWO.replace('method = "mtp"', 'model = "x/draft"')
    said = flag(engine_argv(parse(own), "b", (), 1), "--speculative-config")
    assert json.loads(said or "") == {"model": "x/draft", "num_speculative_tokens": 3}


def test_efforts_without_budgets_are_none() -> None:
    spec = load(TWO, {"VL_EFFORT_PATCH": "off", "VL_BRIDGE": "native"})
    env = bridge_env(spec, {}, 1, "", "")
    assert (env["PASSERELLE_EFFORT"], env["PASSERELLE_MODE"], env["PASSERELLE_SWAP"]) == ("{}", "native", "on")
    assert json.loads(env["PASSERELLE_MODEL_NAMES"]) == ["a", "claude-sonnet-5"]
