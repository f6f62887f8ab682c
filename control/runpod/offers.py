"""The catalogue -> the attempts to make, in order: what fits, cheapest first. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from control.errors import Refused
from control.models import Offer
from control.runpod.gpus import short
from control.runpod.order import Order

_STOCK = {"HIGH": 0, "MEDIUM": 1, "LOW": 2, "?": 3, "NONE": 4}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One machine to ask for."""

    offer: Offer
    data_center: str | None

    def __str__(self) -> str:
        where = self.data_center or "any data centre"
        cloud = "" if self.offer.cloud == "SECURE" else ", community cloud"
        return f"{self.offer.count} × {short(self.offer.gpu)} at {self.offer.per_hour:.2f} $/h, {where}{cloud}"


def cheapest_first(offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
    """By price, then by stock. Stock is a hint, so a type that is said to be out comes last instead of never."""
    return tuple(sorted(offers, key=lambda o: (o.stock == "NONE", o.per_hour, _STOCK[o.stock], o.gpu)))


def attempts(order: Order, catalogue: tuple[Offer, ...]) -> tuple[Attempt, ...]:
    """What to ask for, in order. Raises Refused, with what there is instead, when nothing fits the order."""
    named = [offer for offer in catalogue if offer.gpu in order.gpus and offer.cloud in order.clouds]
    if not named:
        wanted = ", ".join(short(gpu) for gpu in order.gpus)
        raise Refused(
            f"RunPod offers no machine with {order.count} × {wanted}", "see what there is: passerelle pod offers"
        )
    fitting = [o for o in named if order.max_price is None or o.per_hour <= order.max_price]
    if not fitting:
        best = min(named, key=lambda offer: offer.per_hour)
        raise Refused(
            f"nothing fits --max-price {order.max_price:g}: the cheapest is {order.count} × {short(best.gpu)} "
            f"at {best.per_hour:.2f} $/h",
            "raise --max-price, or name other GPU types (passerelle pod offers)",
        )
    return tuple(
        Attempt(offer, data_center)
        for offer in cheapest_first(tuple(fitting))
        for data_center in order.data_centers or (None,)
    )
