"""The engine's command line and both environments."""

from __future__ import annotations

import argparse
import json

from bootstrap.command import bridge_env, engine_argv, engine_env
from bootstrap.spec import parse

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
    assert engine_argv(BARE, ("vllm",), 8000) == (
        *("vllm", "serve", "x/q", "--host", "127.0.0.1", "--port", "8000", "--served-model-name", "q"),
        *("--gpu-memory-utilization", "0.85", "--enable-prompt-tokens-details"),
    )


def test_everything_that_the_spec_says_is_a_flag_and_the_models_then_the_extra_ones_come_last() -> None:
    assert engine_argv(FULL, ("python", "-m", "vllm"), 8001) == (
        *("python", "-m", "vllm", "serve", "x/q", "--host", "127.0.0.1", "--port", "8001"),
        *("--served-model-name", "q", "claude-q[1m]"),
        *("--revision", "main", "--max-model-len", "262144", "--max-num-seqs", "32"),
        *("--max-num-batched-tokens", "8192", "--kv-cache-memory-bytes", "7", "--kv-cache-dtype", "fp8"),
        *("--block-size", "16", "--num-gpu-blocks-override", "160"),
        *("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"),
        *("--speculative-config", '{"method":"ngram","num_speculative_tokens":12}'),
        *("--limit-mm-per-prompt", '{"image":4}'),
        *("--enable-prefix-caching", "--no-async-scheduling", "--enable-auto-tool-choice"),
        *("--enable-prompt-tokens-details", "--trust-remote-code", "--seed", "1"),
    )


def test_the_names_do_not_swallow_what_follows_them() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--served-model-name", nargs="+")
    known, _ = parser.parse_known_args(engine_argv(FULL, (), 1)[1:])
    assert (known.model, known.served_model_name) == ("x/q", ["q", "claude-q[1m]"])


def test_the_engine_gets_no_token_of_ours_and_may_go_online() -> None:
    env = engine_env(BARE, INHERITED)
    assert env == {"PATH": "/bin", "HF_TOKEN": "hf_x", "PYTHONUNBUFFERED": "1"}
    assert engine_env(FULL, INHERITED)["HF_HUB_OFFLINE"] == "1"


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
    }
