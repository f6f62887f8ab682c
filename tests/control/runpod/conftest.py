"""A provider of ours against the double, on one clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from control.keys import Keys
from control.models import Tokens
from control.runpod.client import Access
from control.runpod.launch import with_env
from control.runpod.order import Order
from control.runpod.provider import RunPodProvider
from control.runpod.store import Store
from tests.doubles.clock import ManualClock
from tests.doubles.runpod import KEY, RunPodDouble

TOKENS = Tokens("pas-client-planted-0001", "pas-operator-planted-0002")
HF = "hf_planted_0003"
A40 = "NVIDIA A40"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def double(clock: ManualClock) -> Iterator[RunPodDouble]:
    with RunPodDouble(clock) as made:
        yield made
        assert made.violations == [], "the double itself must say nothing that RunPod would not"


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path, environ={"PASSERELLE_KEYRING": "off"})


@pytest.fixture
def provider(double: RunPodDouble, clock: ManualClock, keys: Keys, tmp_path: Path) -> RunPodProvider:
    return RunPodProvider(Access(KEY, double.url), Store(tmp_path), keys, clock)


def order(*gpus: str, **changes: object) -> Order:
    made = Order(gpus=gpus or (A40,), image="vllm/vllm-openai:v0.27.1", **changes)  # type: ignore[arg-type]
    return with_env(made, TOKENS, HF)
