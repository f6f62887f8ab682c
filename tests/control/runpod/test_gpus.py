"""Short names of GPUs: the whole card, never a slice of it."""

from __future__ import annotations

import pytest

from control.errors import UsageError
from control.runpod.gpus import ALIASES, exact, short

SERVER = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("a40", ("NVIDIA A40",)),
        ("ADA", ("NVIDIA RTX 6000 Ada Generation",)),
        ("h200", ("NVIDIA H200",)),
        ("nvidia h200 nvl", ("NVIDIA H200 NVL",)),
        ("pro6000-mig24", (f"{SERVER} MIG 1g.24gb",)),
    ],
)
def test_one_name(name: str, ids: tuple[str, ...]) -> None:
    assert exact([name]) == ids


def test_a_card_is_never_one_of_its_slices() -> None:
    catalogue = [f"{SERVER} MIG 1g.24gb", f"{SERVER} MIG 2g.48gb", SERVER]
    assert all("MIG" not in id_ for id_ in exact(["pro6000"], catalogue))
    assert exact([SERVER], catalogue) == (SERVER,)
    assert len(exact(["pro6000"])) == 3
    sliced = {alias for alias, ids in ALIASES.items() if any("MIG" in id_ for id_ in ids)}
    assert sliced == {"pro6000-mig24", "pro6000-mig48"}


def test_each_once_in_the_order_that_was_named() -> None:
    assert exact(["h200", "a40", "NVIDIA H200"]) == ("NVIDIA H200", "NVIDIA A40")


def test_a_type_that_only_the_catalogue_knows() -> None:
    assert exact(["nvidia c900"], ["NVIDIA C900"]) == ("NVIDIA C900",)


@pytest.mark.parametrize(("name", "near"), [("a4o", "a40"), ("NVIDIA A4", "NVIDIA A40"), ("zzzzzz", "pod offers")])
def test_a_name_that_is_none_says_what_comes_near(name: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        exact([name])
    assert near in caught.value.remedy


def test_the_short_name_is_one_that_stands_for_it_alone() -> None:
    assert short("NVIDIA A40") == "a40"
    assert short("NVIDIA H100 80GB HBM3") == "h100-sxm"
    assert short("NVIDIA C900") == "NVIDIA C900"
