"""An order that RunPod would refuse whatever the machine is refused here, with what to do."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.errors import UsageError
from control.runpod.order import Order, container_args, is_secret


def order(**changes: object) -> Order:
    return Order(**({"gpus": ("NVIDIA A40",), "image": "i"} | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpus": ()}, "no GPU type"),
        ({"count": 0}, "at least one GPU"),
        ({"image": None}, "neither an image nor a template"),
        ({"args": "x", "cmd": ("y",)}, "args beside"),
        ({"cuda": ("12.8",), "min_cuda": "12.4"}, "beside a lowest one"),
        ({"cuda": ("12",)}, "no CUDA version"),
        ({"min_cuda": "twelve"}, "no CUDA version"),
        ({"volume_gb": 20, "network_volume": "v"}, "two volumes"),
        ({"volume_gb": 5}, "10 GB at least"),
        ({"disk_gb": 0}, "container disk"),
        ({"env": tuple((str(n), "") for n in range(51))}, "51 environment variables"),
        ({"network_volume": "v", "clouds": ("SECURE", "COMMUNITY")}, "secure cloud alone"),
    ],
)
def test_what_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        order(**changes)
    assert caught.value.remedy


def test_an_order_does_not_show_its_environment() -> None:
    assert "hf_planted" not in repr(order(env=(("HF_TOKEN", "hf_planted"),)))


@given(st.lists(st.text(max_size=30), min_size=1, max_size=5), st.lists(st.text(max_size=30), max_size=3))
def test_words_of_a_command_arrive_as_they_are(cmd: list[str], entrypoint: list[str]) -> None:
    line = container_args(order(cmd=tuple(cmd), entrypoint=tuple(entrypoint)))
    assert line is not None
    read = json.loads(line)
    assert read["cmd"] == cmd
    assert read.get("entrypoint", []) == entrypoint


def test_a_line_of_ones_own_is_left_alone() -> None:
    assert container_args(order(args="sleep 1")) == "sleep 1"
    assert container_args(order()) is None


@pytest.mark.parametrize("name", ["HF_TOKEN", "RUNPOD_API_KEY", "password", "AWS_SECRET_ID", "SSH_AUTH"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)
    assert not is_secret("VL_CTX")
    assert not is_secret("PUBLIC_KEY")
