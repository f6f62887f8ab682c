"""Levels and text of recorded lines, and pipes cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.logline import RAW_LIMIT, TEXT_LIMIT, WITHHELD_LONG, Splitter, clean, is_noise, read


@pytest.mark.parametrize(
    ("raw", "level", "text"),
    [
        # vLLM 0.25, recorded.
        ("(EngineCore pid=2138) INFO 11-29 13:42:28 [core.py:114] Initializing a V1", "info", "Initializing a V1"),
        ("(APIServer pid=2) WARNING 11-29 13:42:11 [system_utils.py:299] Found ulimit", "warning", "Found ulimit"),
        (
            "(APIServer pid=2) ERROR 11-29 13:45:51 [server_utils.py:356]     return await f()",
            "error",
            "    return await f()",
        ),
        ("(APIServer pid=2023) INFO:     Shutting down", "info", "Shutting down"),
        ("(EngineCore pid=2138) Process EngineCore:", "info", "Process EngineCore:"),
        (
            "vllm: error: unrecognized arguments: --no-such-flag",
            "error",
            "vllm: error: unrecognized arguments: --no-such-flag",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory", "error", "torch.OutOfMemoryError: CUDA out of memory"),
        ("Traceback (most recent call last):", "error", "Traceback (most recent call last):"),
        # The bridge, and what only looks like a level.
        ("info serving on ('127.0.0.1', 8080)", "info", "serving on ('127.0.0.1', 8080)"),
        ("error: cannot bind", "error", "cannot bind"),
        ("information is not a level", "info", "information is not a level"),
        ("Errors are counted", "info", "Errors are counted"),
        ("\x1b[1;32mINFO\x1b[0m 01-02 03:04:05 [a.py:1] ready\x1b]0;title\x07", "info", "ready"),
    ],
)
def test_read(raw: str, level: str, text: str) -> None:
    assert read(clean(raw)) == (level, text)


def test_the_engines_log_of_what_went_well_is_noise_and_of_what_did_not_is_not() -> None:
    assert is_noise('(APIServer pid=1) INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK')
    assert is_noise("   ")
    assert not is_noise('(APIServer pid=1) INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 503 Service Unavailable')
    assert is_noise('(APIServer pid=1) INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK')
    assert not is_noise(
        '(APIServer pid=1) INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request'
    )
    assert not is_noise("(APIServer pid=1) INFO 11-29 12:54:32 [loggers.py:271] Engine 000: Avg prompt throughput: 200")


def test_a_line_that_is_cut_loses_its_last_word_whole() -> None:
    assert clean("word " * 10 + "secret" * RAW_LIMIT) == "word " * 9 + "word …"
    assert clean("x" * (RAW_LIMIT + 1)) == WITHHELD_LONG
    assert len(read("y" * RAW_LIMIT)[1]) == TEXT_LIMIT


@settings(deadline=None)
@given(st.text())
def test_nothing_that_drives_a_terminal_is_left(raw: str) -> None:
    assert clean(raw).isprintable()


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)), st.data())
def test_lines_are_the_same_however_the_pipe_is_cut(lines: list[str], data: st.DataObject) -> None:
    whole = "\n".join(lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    splitter, found = Splitter(), list[str]()
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        if start < end:
            found += splitter.feed(whole[start:end], 0.0)
    found += splitter.feed(b"", 0.0)
    assert found == [line for line in lines if line]


def test_a_progress_bar_gives_one_line_a_second_and_its_last_state() -> None:
    splitter = Splitter()
    bars = [splitter.feed(f"load {step}%\r".encode(), step / 10) for step in range(25)]
    assert [line for some in bars for line in some] == ["load 0%", "load 10%", "load 20%"]
    assert splitter.feed(b"load 100%\r\n", 2.5) == ["load 100%"]


def test_a_line_without_end_holds_a_bounded_memory_and_is_told_once_without_its_end() -> None:
    splitter = Splitter()
    assert [line for _ in range(100) for line in splitter.feed(b"z" * 10_000, 0.0)] == []
    assert len(splitter._rest) < 80_000
    cut, following = splitter.feed(b"tail of it\nnext\n", 0.0)
    assert RAW_LIMIT < len(cut) < 80_000
    assert set(cut) == {"z"}
    assert following == "next"
