"""Which machine is asked for first."""

from __future__ import annotations

import pytest

from control.errors import Refused
from control.models import Offer
from control.runpod.offers import attempts, cheapest_first
from control.runpod.order import Order


def offer(gpu: str, price: float, stock: str = "HIGH", cloud: str = "SECURE") -> Offer:
    return Offer(gpu, 1, 48, cloud, (), price, stock)  # type: ignore[arg-type]


CATALOGUE = (
    offer("NVIDIA A40", 0.44),
    offer("NVIDIA RTX 6000 Ada Generation", 0.77, "LOW"),
    offer("NVIDIA H200", 3.99),
    offer("NVIDIA L40S", 0.10, "NONE"),
)


def order(*gpus: str, **changes: object) -> Order:
    return Order(gpus=gpus, image="i", **changes)  # type: ignore[arg-type]


def test_cheapest_first_then_stock_and_what_is_out_last() -> None:
    same = (offer("b", 1.0, "LOW"), offer("a", 1.0, "HIGH"), offer("c", 0.5, "NONE"))
    assert [o.gpu for o in cheapest_first(same)] == ["a", "b", "c"]


def test_only_what_was_named_and_fits() -> None:
    tried = attempts(order("NVIDIA H200", "NVIDIA A40", max_price=1.0, data_centers=("A", "B")), CATALOGUE)
    assert [(t.offer.gpu, t.data_center) for t in tried] == [("NVIDIA A40", "A"), ("NVIDIA A40", "B")]
    assert str(tried[0]) == "1 × a40 at 0.44 $/h, A"


def test_the_community_cloud_only_when_it_was_asked_for() -> None:
    both = (*CATALOGUE, offer("NVIDIA A40", 0.30, cloud="COMMUNITY"))
    assert len(attempts(order("NVIDIA A40"), both)) == 1
    first = attempts(order("NVIDIA A40", clouds=("SECURE", "COMMUNITY")), both)[0]
    assert str(first) == "1 × a40 at 0.30 $/h, any data centre, community cloud"


def test_nothing_fits_says_what_would() -> None:
    with pytest.raises(Refused, match=r"the cheapest is 1 × h200 at 3\.99"):
        attempts(order("NVIDIA H200", max_price=2.0), CATALOGUE)
    with pytest.raises(Refused, match="offers no machine with 1 × b200"):
        attempts(order("NVIDIA B200"), CATALOGUE)
