from __future__ import annotations

import pytest

from control.local.engine_options import Options, parse


def options(*flags: str) -> Options:
    return parse(["serve", "org/model", *flags])


def test_the_defaults_are_the_measured_ones() -> None:
    got = options()
    assert (got.prefill_tokens_per_s, got.decode_base_s) == (11_200, 0.004936)
    assert got.decode_s_per_token == pytest.approx(0.01274e-6)
    assert (got.block_size, got.blocks, got.kv_tokens) == (16, 38_602, 617_632)
    assert (got.names, got.window, got.images, got.ignored) == (("org/model",), 262_144, 0, ())


def test_vllms_flags_are_taken() -> None:
    got = options(
        *("--host", "127.0.0.2", "--port", "9", "--served-model-name", "a", "b[1m]", "--max-model-len", "8192"),
        *("--max-num-seqs", "7", "--max-num-batched-tokens", "2048", "--num-gpu-blocks-override", "160"),
        *("--block-size", "128", "--no-enable-prefix-caching", "--enable-prompt-tokens-details"),
        *("--enable-server-load-tracking", "--gpu-memory-utilization", "0.85", "--kv-cache-dtype", "fp8"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"),
    )
    assert (got.host, got.port, got.names, got.window) == ("127.0.0.2", 9, ("a", "b[1m]"), 8192)
    assert (got.sequences, got.batched_tokens, got.blocks, got.block_size) == (7, 2048, 160, 128)
    assert (got.prefix_caching, got.prompt_details, got.load_tracking, got.ignored) == (False, True, True, ())
    assert (got.kv_tokens, got.longest) == (20_480, 20_352)
    assert got.cache_config["gpu_memory_utilization"] == "0.85"
    assert got.cache_config["cache_dtype"] == "fp8"
    assert got.cache_config["num_gpu_blocks_override"] == "160"


@pytest.mark.parametrize(
    ("text", "tokens"), [("8k", 8000), ("8K", 8192), ("1M", 1 << 20), ("1.5m", 1_500_000), ("auto", 262_144)]
)
def test_sizes_in_vllms_notation(text: str, tokens: int) -> None:
    assert options("--max-model-len", text).window == tokens


@pytest.mark.parametrize(
    ("text", "images"), [('{"image": 4}', 4), ('{"image": {"count": 2}}', 2), ("image=3,video=0", 3), ("{}", 0)]
)
def test_images_per_prompt_in_both_notations(text: str, images: int) -> None:
    assert options("--limit-mm-per-prompt", text).images == images


def test_flags_without_a_meaning_here_are_kept_to_be_named_with_their_values() -> None:
    got = options("--trust-remote-code", "--moe-backend", "marlin", "--seed=3", "--port", "9", "--async-scheduling")
    assert got.ignored == ("--trust-remote-code", "--moe-backend marlin", "--seed=3", "--async-scheduling")
    assert got.port == 9


def test_sim_flags_may_stand_before_serve() -> None:
    before = parse(["--sim-kv-tokens", "3200", "--sim-seed", "7", "serve", "m", "--served-model-name", "a", "b"])
    after = parse(["serve", "m", "--served-model-name", "a", "b", "--sim-kv-tokens", "3200", "--sim-seed", "7"])
    assert before == after
    assert (before.blocks, before.seed, before.names) == (200, 7, ("a", "b"))


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["serve"],
        ["bench"],
        ["serve", "m", "--max-model-len", "0"],
        ["serve", "m", "--max-num-seqs", "-1"],
        ["serve", "m", "--block-size", "0"],
        ["serve", "m", "--num-gpu-blocks-override", "1"],
        ["serve", "m", "--sim-prefill-tokens-per-s", "0"],
        ["serve", "m", "--limit-mm-per-prompt", "{"],
        ["serve", "m", "--port", "x"],
    ],
)
def test_nonsense_exits_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(argv)
    assert caught.value.code == 2
    assert "error" in capsys.readouterr().err


def test_version_says_that_it_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == "0.32.0+simulated\n"
