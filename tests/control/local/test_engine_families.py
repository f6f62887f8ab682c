from __future__ import annotations

import re

import pytest

from control.local.engine_families import cache_config, families, one_two_five
from tests.control.local.simulated import DATA


def test_the_cache_config_has_real_vllms_values_for_the_same_cache() -> None:
    real = next(
        line
        for line in (DATA / "metrics_capacity.txt").read_text(encoding="utf-8").splitlines()
        if line.startswith("vllm:cache_config_info{")
    )
    said = {"num_gpu_blocks_override": "160", "kv_cache_memory_bytes": "1073741824"}
    assert cache_config(160, 128, 8192, said) == dict(re.findall(r'(\w+)="([^"]*)"', real))


@pytest.mark.parametrize(("most", "last"), [(8192, 5000), (262_144, 200_000), (5, 5)])
def test_token_buckets_end_below_the_window(most: int, last: float) -> None:
    assert one_two_five(most)[-1] == last
    assert one_two_five(most)[:3] == (1, 2, 5)


def test_every_family_is_named_once_and_histograms_have_rising_buckets() -> None:
    known = families(8192)
    assert len({family.name for family in known}) == len(known)
    for family in known:
        assert (family.kind == "histogram") == bool(family.buckets)
        assert list(family.buckets) == sorted(set(family.buckets))
