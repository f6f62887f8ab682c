"""Which limit makes requests wait: vLLM says "capacity" for the KV cache, the sequences and the step's tokens. Pure."""

from __future__ import annotations

from control.observe.case import Case

KV_FULL = 0.95
ROOM_TO_SPARE = 1.5


def who_waits(case: Case) -> str:
    total = (case.snap.engine.running or 0) + case.waiting
    return f"{case.snap.engine.waiting.capacity} of {total} requests wait"


def kv_detail(case: Case) -> str:
    engine = case.snap.engine
    need = "" if case.next_prompt is None else f"; the next needs about {case.next_prompt / 1000:.0f} k tokens"
    free = "" if case.kv_free is None else f", {case.kv_free / 1000:.0f} k are free (KV {engine.kv_usage or 0:.0%})"
    return f"{who_waits(case)}{need}{free}."


def by_kv(case: Case) -> bool:
    """vLLM says "capacity" for three limits; it is the KV cache when the next prompt does not fit in it.

    Where its size is not known: when nothing prefills and a sequence is left, only the cache can be in the way.
    """
    engine = case.snap.engine
    if not engine.waiting.capacity or by_sequences(case):
        return False
    if (engine.kv_usage or 0.0) >= KV_FULL:
        return True
    if case.next_prompt is not None and case.kv_free is not None and case.kv_free < case.next_prompt:
        return True
    return case.prefilling == 0


def by_sequences(case: Case) -> bool:
    engine = case.snap.engine
    most = engine.max_num_seqs
    return bool(engine.waiting.capacity) and most is not None and (engine.running or 0) >= most


def still_waits(case: Case) -> bool:
    """Something waits, and not for a sequence."""
    return bool(case.snap.engine.waiting.capacity) and not by_sequences(case)


def kv_still(case: Case) -> bool:
    """Once the cache was in the way it is so until the next prompt fits with room to spare."""
    if not still_waits(case):
        return False
    need, free = case.next_prompt, case.kv_free
    roomy = need is not None and free is not None and free >= ROOM_TO_SPARE * need
    return not (roomy and case.prefilling)


def prefill_detail(case: Case) -> str:
    rate = case.snap.engine.prefill_tok_s
    speed = "" if rate is None else f" at {rate:.0f} tok/s computed"
    return f"{who_waits(case)} behind {case.prefilling} that the engine reads{speed}."
