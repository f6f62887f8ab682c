"""The pieces of a launch that no double is needed for: names, tokens, money, the same again."""

from __future__ import annotations

import pytest

from control.errors import NoSuchPod, Refused
from control.keys import fresh_tokens
from control.models import Account, Offer
from control.runpod import launch
from control.runpod.wire import GpuUse, Mounts, Network, Persistent, PodAnswer
from tests.control.runpod.conftest import HF, TOKENS, order

OFFER = Offer("NVIDIA A40", 1, 48, "SECURE", (), 0.44, "HIGH")


def test_names_and_tokens_are_never_the_same() -> None:
    names = {launch.unique_name("x" * 80) for _ in range(50)}
    assert len(names) == 50
    assert all(len(name) <= 60 for name in names)
    first, second = fresh_tokens(), fresh_tokens()
    assert len({first.client, first.operator, second.client, second.operator}) == 4


def test_the_operators_ssh_keys_are_let_in() -> None:
    env = dict(launch.with_env(order(), TOKENS, None, ("ssh-ed25519 A me", "ssh-rsa B")).env)
    assert env["PUBLIC_KEY"] == "ssh-ed25519 A me\nssh-rsa B"
    assert "PUBLIC_KEY" not in dict(launch.with_env(order(), TOKENS, None).env)


def test_what_an_order_says_of_its_environment_wins() -> None:
    wanted = order(env=(("HF_TOKEN", "{{ RUNPOD_SECRET_hf }}"), ("VL_CTX", "65536")), hub="hf://me/x")
    env = dict(wanted.env)
    assert env["HF_TOKEN"] == "{{ RUNPOD_SECRET_hf }}"
    assert (env["VL_CTX"], env["PASSERELLE_HUB"]) == ("65536", "hf://me/x")
    assert set(launch.secrets_in(wanted)) == {TOKENS.client, TOKENS.operator, "{{ RUNPOD_SECRET_hf }}"}
    assert HF not in env.values()


@pytest.mark.parametrize(
    ("account", "words"),
    [
        (Account(0.43, 0.0, 80.0), "does not reach for one hour"),
        (Account(-1.0, None, None), "does not reach for one hour"),
        (Account(50.0, 79.9, 80.0), r"may spend 80\.00 \$/h"),
    ],
)
def test_too_little_money_stops_a_launch(account: Account, words: str) -> None:
    with pytest.raises(Refused, match=words):
        launch.check_funds(account, OFFER)


@pytest.mark.parametrize(
    "account", [Account(0.44, 0.0, 80.0), Account(None, None, None, "no library"), Account(9.0, None, None)]
)
def test_enough_money_or_an_unknown_balance_stops_nothing(account: Account) -> None:
    launch.check_funds(account, OFFER)


def test_the_same_again_without_its_tokens() -> None:
    env = {"PASSERELLE_OPERATOR_TOKEN": "o", "PASSERELLE_HUB": "hf://me/x", "PUBLIC_KEY": "ssh", "VL_CTX": "1"}
    old = PodAnswer(
        "a1", image="i", args="go", disk=70, env=env, cloud="SECURE", gpu=GpuUse("NVIDIA A40", 2),
        data_center_id="EU-SE-1", mounts=Mounts(persistent=Persistent(20, "/w")), ports=("8080/http",),
    )  # fmt: skip
    again = launch.same_again(old, ())
    assert (again.gpus, again.count, again.args, again.disk_gb, again.volume_gb) == (("NVIDIA A40",), 2, "go", 70, 20)
    assert (again.env, again.hub, again.data_centers, again.mount) == ((("VL_CTX", "1"),), "hf://me/x", (), "/w")
    network = launch.same_again(
        PodAnswer("a1", image="i", data_center_id="EU-SE-1", mounts=Mounts(network=(Network("v1", "/n"),))), ("g",)
    )
    assert (network.network_volume, network.data_centers) == ("v1", ("EU-SE-1",)), "its volume is in one place"
    with pytest.raises(NoSuchPod):
        launch.same_again(PodAnswer("a1"), ())
