"""Recorded logs of vLLM 0.25 on an H200 and 0.32 on CPU, and lines made from what went wrong elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootstrap.enginelog import EngineLog
from bootstrap.report import Boot, Fault
from bootstrap.toml_reader import data

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "bootstrap"
FAULTS = data("faults.toml")
AT = re.compile(r"\d\d-\d\d (\d\d):(\d\d):(\d\d) \[")


def replay(name: str) -> Boot:
    """A recorded log, at the seconds that its lines say."""
    log, now, began = EngineLog(0.0), 0.0, None
    for line in re.split(r"[\r\n]+", (DATA / name).read_text(encoding="utf-8")):
        if said := AT.search(line):
            seconds = int(said[1]) * 3600.0 + int(said[2]) * 60 + int(said[3])
            began = seconds if began is None else began
            now = seconds - began
        log.feed(line, now)
    return log.boot(now)


def read(*lines: str, phase: str = "start") -> Boot:
    """Lines of an engine that is in this part of its start."""
    into = {
        "start": [],
        "weights": ["Starting to load model x..."],
        "profile": ["Model loading took 1.0 GiB memory and 1.0 seconds"],
        "graphs": ["Capturing CUDA graphs (decode, FULL): 0%"],
        "ready": ["(APIServer pid=1) INFO:     Application startup complete."],
    }
    log = EngineLog(0.0)
    for line in (*into[phase], *lines):
        log.feed(line, 1.0)
    return log.boot(2.0)


def fault_of(boot: Boot) -> Fault:
    assert boot.fault is not None
    return boot.fault


def test_a_healthy_start_on_a_gpu_in_its_parts() -> None:
    boot = replay("engine-h200-sleep.log")
    parts = [(phase.name, phase.at_s, phase.took_s) for phase in boot.phases]
    assert parts == [
        ("start", 0.0, 49.0),
        ("weights", 49.0, 2.086079),
        ("compile", 52.0, 34.73),
        ("profile", 87.0, 13.0),
        ("kv", 100.0, 1.0),
        ("graphs", 101.0, 23.0),
        ("api", 125.0, 0.0),
        ("ready", 125.0, 0.0),
    ]
    assert (boot.ready, boot.fault) == (True, None)


def test_its_figures_and_the_kernels_that_were_retained() -> None:
    boot = replay("engine-h200-sleep.log")
    assert boot.figures == {
        **{"weights_gib": 55.79, "kv_gib": 61.54, "kv_tokens": 672_192.0, "context": 131_072.0, "concurrency": 5.13},
        **{"graphs_gib": 0.8, "init_s": 72.42, "sleep_s": 1.193216, "wake_s": 0.122631, "asleep_gib": 2.41},
    }
    assert boot.kernels == {
        **{"attention": "FLASH_ATTN", "flash_attention": "3", "moe": "TRITON"},
        "architecture": "Qwen3MoeForCausalLM",
    }


def test_a_start_on_cpu_has_no_compilation_and_no_graphs() -> None:
    boot = replay("engine-cpu-start.log")
    assert [phase.name for phase in boot.phases] == ["start", "weights", "profile", "kv", "api", "ready"]
    assert (boot.figures["kv_tokens"], boot.figures["kv_gib"], boot.figures["concurrency"]) == (4_194_304.0, 1.0, 512.0)
    assert boot.fault is None


def test_what_the_engine_says_once_it_serves_begins_no_part_again() -> None:
    boot = replay("engine-h200-killed.log")
    assert [phase.name for phase in boot.phases][-2:] == ["api", "ready"]
    assert boot.ready


@pytest.mark.parametrize(
    ("name", "fault", "says"),
    [
        ("engine-h200-killed.log", "engine-dead", "engine core exited unexpectedly"),
        ("engine-cpu-killed.log", "engine-dead", "engine core exited unexpectedly"),
        ("engine-h200-kv-too-small.log", "kv-too-small", "ValueError: To serve at least one request"),
        ("engine-unknown-flag.log", "unsupported-argument", "vllm: error: unrecognized arguments: --no-such-flag"),
    ],
)
def test_what_was_wrong_in_a_recorded_log(name: str, fault: str, says: str) -> None:
    found = fault_of(replay(name))
    assert found.name == fault
    assert says in found.line


def test_a_cache_that_is_too_small_says_what_would_fit() -> None:
    found = fault_of(replay("engine-h200-kv-too-small.log"))
    figures = {"context": "262144", "needed": "24.0", "available": "6.77", "longest": "73920"}
    assert (found.severity, found.figures) == ("fatal", figures)
    assert found.remedy.startswith("set context to 73920 or less; ")
    older = (
        "ValueError: To serve at least one request with the model's max seq len (262144), 7.25 GiB KV cache is needed, "
    )
    older += (
        "which is larger than the available KV cache memory (6.47 GiB). ... estimated maximum model length is 231264."
    )
    assert fault_of(read(older)).figures["longest"] == "231264"


SHARD = "model-00001-of-00002.safetensors:  {}%|###   | {}/4.97G [00:05<00:41, 105MB/s]"


def test_a_download_has_its_bytes_and_its_rate() -> None:
    log = EngineLog(100.0)
    log.feed("(EngineCore pid=1) INFO 11-29 13:42:31 [gpu_model_runner.py:1] Starting to load model x/y...", 110.0)
    log.feed("Fetching 2 files:   0%|          | 0/2 [00:00<?, ?it/s]", 111.0)
    log.feed(SHARD.format(50, "2.50G"), 115.0)
    log.feed(SHARD.replace("00001", "00002").format(10, "500M"), 115.0)
    start, download = log.boot(120.0).phases
    assert (start.name, start.at_s, start.took_s) == ("start", 0.0, 10.0)
    assert (download.name, download.at_s, download.took_s, download.bytes) == ("download", 10.0, None, 3.0e9)
    assert download.bytes_per_s == 3.0e8
    log.feed(SHARD.format(100, "4.97G"), 130.0)
    log.feed("INFO 11-29 13:44:31 [weight_utils.py:1] Time spent downloading weights for x/y: 21.5 seconds", 131.0)
    log.feed("Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]", 132.0)
    download, weights = log.boot(140.0).phases[1:]
    assert (download.took_s, download.bytes) == (21.5, 5.47e9)
    assert (weights.name, weights.at_s, weights.took_s) == ("weights", 31.0, None)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("Using 'MARLIN' NvFp4 MoE backend out of potential backends: ['MARLIN']", "moe", "MARLIN"),
        ("Using FlashInfer CUTLASS Unquantized MoE backend out of", "moe", "FlashInfer CUTLASS"),
        ("Using 'WNA16_MARLIN' WNA16 MoE backend.", "moe", "WNA16_MARLIN"),
        ("Using MarlinNvFp4LinearKernel for NVFP4 GEMM", "linear", "MarlinNvFp4LinearKernel"),
        ("Using FLASHINFER attention backend out of potential backends: ['FLASHINFER'].", "attention", "FLASHINFER"),
    ],
)
def test_the_kernels(line: str, name: str, value: str) -> None:
    assert read(f"(EngineCore pid=1) INFO 11-29 13:42:32 [x.py:1] {line}").kernels == {name: value}


# From the seeds' documents, and from the source of vLLM 0.32.
LINES = [
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 12080)", "driver-too-old", "start"),
    ("RuntimeError: No CUDA GPUs are available", "no-gpu", "start"),
    ("RuntimeError: Failed to infer device type, please set the environment variable", "no-gpu", "start"),
    ("AssertionError: DP adjusted local rank 1 is out of bounds for 1 devices", "lost-gpu", "start"),
    ("torch.AcceleratorError: CUDA error: unspecified launch failure", "cuda-launch-failure", "ready"),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 516.00 MiB. GPU 0 has a total",
        "oom-serving",
        "ready",
    ),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0", "oom-weights", "weights"),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0", "oom-profile", "graphs"),
    (
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests.",
        "oom-sampler",
        "graphs",
    ),
    (
        "ValueError: Free memory on device cuda:0 (2.1/139.8 GiB) on startup is less than desired GPU memory "
        "utilization",
        "gpu-memory-taken",
        "start",
    ),
    ("ValueError: No available memory for the cache blocks. Try increasing", "kv-none", "profile"),
    (
        "ValueError: The checkpoint you are trying to load has model type `qwen4_exp` but Transformers does not "
        "recognize this architecture.",
        "unrecognised-architecture",
        "start",
    ),
    (
        "Value error, Model architectures ['Foo'] are not supported for now. Supported",
        "unrecognised-architecture",
        "start",
    ),
    ("vllm serve: error: argument --moe-backend: invalid choice: 'x'", "unsupported-argument", "start"),
    (
        "ImportError: cannot import name 'bytes_to_unicode' from 'transformers.convert_slow_tokenizer'",
        "tokenizer-shim",
        "start",
    ),
    ("KeyError: 'model.ngram_embedding.weight_scale'", "quantised-head", "weights"),
    ("ValueError: Please pass the argument `trust_remote_code=True` to allow", "trust-remote-code", "start"),
    ("huggingface_hub.errors.GatedRepoError: 403 Client Error.", "gated-model", "start"),
    ("huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error.", "no-such-model", "start"),
    ("huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying", "hub-offline", "start"),
    ("OSError: [Errno 28] No space left on device", "disk-full", "weights"),
    (
        "OSError: [Errno 98] Address already in use",
        "port-taken",
        "start",
    ),
    ("queue.Full", "ple-queue-full", "ready"),
    ("RuntimeError: pidfd_getfd: Operation not permitted", "ple-memory-share", "weights"),
    (
        "VLLMValidationError: thinking_token_budget is not yet supported by the V2 model runner",
        "thinking-budget-refused",
        "ready",
    ),
    ("ValueError: Sleep mode is not supported on current platform.", "sleep-on-cpu", "start"),
    ("set_mempolicy: Operation not permitted", "numa-refused", "start"),
    ("No available shared memory broadcast block found in 60 seconds. This typically", "nccl-wait", "graphs"),
    (
        "All limits of multimodal modalities supported by the model are set to 0, running in text-only mode.",
        "images-off",
        "start",
    ),
    (
        "[transformers] Unrecognized keys in `rope_parameters` for 'rope_type'='default': {'mrope_section'}",
        "transformers-too-old",
        "start",
    ),
    ("Out of memory: Killed process 12 (VLLM::EngineCor)", "killed", "start"),
    ("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", "engine-dead", "ready"),
    (
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        "root-cause-above",
        "weights",
    ),
    (
        "ValueError: To serve at least one request with the model's max seq len (9), 2 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (1 GiB).",
        "kv-too-small",
        "profile",
    ),
]


@pytest.mark.parametrize(("line", "name", "phase"), LINES)
def test_a_known_fault_goes_by_its_name(line: str, name: str, phase: str) -> None:
    for prefix in ("", "(EngineCore pid=1) ERROR 11-29 13:47:11 [core.py:1231] ", "(Worker_TP1 pid=7) "):
        found = fault_of(read(prefix + line, phase=phase))
        assert (found.name, found.line) == (name, line)
        assert "{" not in found.remedy


def test_every_fault_has_its_line_here_and_its_section_in_the_documentation() -> None:
    assert {name for _, name, _ in LINES} == set(FAULTS)
    sections = re.findall(r"^## (\S+)$", (ROOT / "docs" / "faults.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == sorted([*FAULTS, "unknown"])


DEAD = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
ABOVE = "RuntimeError: Engine core initialization failed. See root cause above."
ODD = "SomeLibraryError: nobody has seen this"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
WAIT = "No available shared memory broadcast block found in 60 seconds."


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ((ABOVE, OOM), "oom-weights"),
        ((OOM, ABOVE, DEAD), "oom-weights"),
        ((DEAD, ODD), "engine-dead"),
        ((ODD, ABOVE, DEAD), "unknown"),
        ((WAIT, ABOVE), "root-cause-above"),
        ((ABOVE, WAIT), "root-cause-above"),
        ((ODD, "ValueError: another"), "unknown"),
        ((ODD, OOM), "oom-weights"),
    ],
)
def test_the_cause_wins_over_what_died_of_it(lines: tuple[str, ...], name: str) -> None:
    assert fault_of(read(*lines, phase="weights")).name == name


def test_a_fatal_line_that_nobody_knows_is_quoted() -> None:
    found = fault_of(read(f"(EngineCore pid=1) ERROR 11-29 13:47:11 [core.py:1] {ODD}", phase="weights"))
    assert (found.name, found.severity, found.line) == ("unknown", "unknown", ODD)


@pytest.mark.parametrize(
    "line",
    [
        "(APIServer pid=1) ERROR 11-29 13:47:11 [serving.py:1] ValueError: this request is odd",
        "(APIServer pid=1) INFO 11-29 13:47:11 [x.py:1] SomeError: 1",
        "(EngineCore pid=1) WARNING 11-29 13:47:11 [x.py:1] SomeError: 1",
        "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://host/picture.png",
        '(APIServer pid=1) INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request',
        "an Error: in the middle of a line",
    ],
)
def test_what_one_request_died_of_is_no_fault_of_the_engine(line: str) -> None:
    assert read(line, phase="ready").fault is None


pieces = st.sampled_from(
    [line for line, _, _ in LINES] + [SHARD.format(50, "2.5G"), "Model loading took 1.5 GiB memory "]
)


@given(st.lists(st.one_of(st.text(), pieces, st.text().map(lambda text: f"(EngineCore pid=1) ERROR {text}"))))
def test_any_log_is_read_and_its_parts_follow_each_other(lines: list[str]) -> None:
    log = EngineLog(10.0)
    for number, line in enumerate(lines):
        log.feed(line, 10.0 + number)
    boot = log.boot(10.0 + len(lines))
    starts = [phase.at_s for phase in boot.phases]
    assert starts == sorted(starts)
    assert boot.phases[0].at_s == 0.0
    assert [phase.took_s is None for phase in boot.phases][:-1] == [False] * (len(boot.phases) - 1)


odd_numbers = st.text(alphabet="0123456789.,-", min_size=1, max_size=8)
RECORDED = [
    *(DATA / "engine-h200-sleep.log").read_text(encoding="utf-8").splitlines(),
    *(line for line, _, _ in LINES),
    SHARD.format(50, "2.5G"),
]


@given(st.sampled_from(RECORDED), st.lists(odd_numbers, min_size=1))
def test_numbers_that_are_none_are_not_read_as_numbers(line: str, numbers: list[str]) -> None:
    given_out = iter(numbers * 200)
    assert read(re.sub(r"\d+(?:\.\d+)?", lambda _: next(given_out), line), phase="weights").phases
