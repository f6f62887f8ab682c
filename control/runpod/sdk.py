"""The only file that uses RunPod's own library: the balance, the spending per hour and its limit, which REST v2 lacks.

The library is heavy (6 s to import), blocks, has one key for the whole process and no deadline of its own. So it is
imported only when somebody asks, in a thread that is left behind when it takes too long. Whatever goes wrong, its
absence and the end of GraphQL included, is an Account without figures and with the reason.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable
from typing import Any

from control.models import Account

WITHIN_S = 30.0
QUERY = "query { myself { clientBalance currentSpendPerHr spendLimit } }"

Ask = Callable[[str, str], Any]
"""(query, key) -> the decoded answer. Blocks."""


async def account(key: str, ask: Ask | None = None, within_s: float = WITHIN_S) -> Account:
    """Never raises for what RunPod or its library does: a figure that cannot be had is None, and `reason` says why."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Account] = loop.create_future()

    def settle(answer: Account) -> None:
        if not done.done():
            done.set_result(answer)

    def work() -> None:
        answer = _account(ask or _library, key)
        try:
            loop.call_soon_threadsafe(settle, answer)
        except RuntimeError:
            return  # the loop ended while the library was still at work: nobody waits for the answer

    threading.Thread(target=work, name="runpod-account", daemon=True).start()
    try:
        async with asyncio.timeout(within_s):
            return await done
    except TimeoutError:
        return _unknown(f"the runpod library has not answered within {within_s:g} s")


def _account(ask: Ask, key: str) -> Account:
    try:
        answer = ask(QUERY, key)
    except ImportError:
        return _unknown("the runpod library is not installed (pip install 'passerelle[runpod]')")
    except Exception as error:  # noqa: BLE001  the library leaks requests', json's and KeyError alike
        return _unknown(f"RunPod's GraphQL gave no balance ({type(error).__name__})")
    try:
        me = answer["data"]["myself"]
        return Account(_dollars(me, "clientBalance"), _dollars(me, "currentSpendPerHr"), _dollars(me, "spendLimit"))
    except (KeyError, TypeError, ValueError):
        return _unknown("RunPod's GraphQL answered without a balance")


def _dollars(me: dict[str, Any], name: str) -> float | None:
    value = me.get(name)
    return None if value is None else float(value)


def _unknown(reason: str) -> Account:
    return Account(None, None, None, reason)


def _library(query: str, key: str) -> Any:
    """It reads RUNPOD_API_BASE_URL at every call, as control.runpod.client does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from runpod.api.graphql import run_graphql_query

        return run_graphql_query(query, api_key=key)
