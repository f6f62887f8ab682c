from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.local.engine_kv import KvCache, chain


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60), st.integers(1, 7))
def test_two_texts_share_exactly_the_keys_of_the_blocks_of_their_common_prefix(
    common: str, left: str, right: str, width: int
) -> None:
    one, two = chain(common + left, width), chain(common + right, width)
    same = sum(1 for a, b in zip(one, two, strict=False) if a == b)
    shared = 0
    while shared < min(len(common + left), len(common + right)) and (common + left)[shared] == (common + right)[shared]:
        shared += 1
    assert same == shared // width
    assert one[:same] == two[:same]


def test_a_key_stands_for_everything_before_it() -> None:
    assert chain("aaaabbbb", 4)[1] != chain("ccccbbbb", 4)[1]
    assert len(chain("aaaabbb", 4)) == 1


def test_released_blocks_stay_reusable_until_they_are_evicted_tail_first() -> None:
    kv = KvCache(5)  # 4 usable: one is vLLM's null block
    keys = chain("aabbcc", 2)
    held = kv.allocate(3)
    for block, key in zip(held, keys, strict=True):
        kv.publish(block, key)
    kv.release(held)
    assert kv.used == 0
    assert kv.match(keys) == held
    kv.allocate(2)  # the one never used, and the tail of the released prefix
    assert kv.match(keys) == held[:2]


def test_a_hit_holds_blocks_together_and_the_last_holder_frees_them() -> None:
    kv = KvCache(5)
    keys = chain("aabb", 2)
    first = kv.allocate(2)
    for block, key in zip(first, keys, strict=True):
        kv.publish(block, key)
    second = kv.match(keys)
    assert kv.idle(second) == 0
    kv.claim(second)
    kv.release(first)
    assert (kv.used, kv.refs(first[0])) == (2, 1)
    kv.release(second)
    assert (kv.used, kv.usage) == (0, 0.0)


def test_of_two_blocks_with_one_content_the_first_is_hit() -> None:
    kv = KvCache(5)
    one, two = kv.allocate(2)
    kv.publish(one, 7)
    kv.publish(two, 7)
    assert kv.match([7]) == [one]
    assert kv.reusable == 1


def test_without_prefix_caching_nothing_is_found() -> None:
    kv = KvCache(5, prefix_caching=False)
    [block] = kv.allocate(1)
    kv.publish(block, 7)
    assert kv.match([7]) == []


def test_misuse_is_an_error() -> None:
    kv = KvCache(3)
    with pytest.raises(ValueError, match="3 blocks asked for, 2 free"):
        kv.allocate(3)
    with pytest.raises(ValueError, match="not held"):
        kv.release([0])
    with pytest.raises(ValueError, match="at least 2"):
        KvCache(1)
