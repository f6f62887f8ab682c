"""One HTTP exchange with a service of the pod, on a connection of its own. An edge."""

import asyncio
import contextlib
import re
from collections import defaultdict
from dataclasses import dataclass
from urllib.parse import urlsplit

from bootstrap.errors import Problem

_GAUGE = re.compile(
    rb"^vllm:(num_requests_running|num_requests_waiting|prompt_tokens_total|generation_tokens_total|kv_cache_usage_perc)"
    rb"(?:\{[^\n]*\})? ([0-9.eE+-]+)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What an engine has to do, and what moves while it does: token counters, and the KV usage during a prefill."""

    requests: float
    progress: tuple[float, ...]


NOTHING = Figures(0.0, ())


async def ask(url: str, limit_s: float, method: str = "GET") -> bytes:
    """The body of a 200. Errors: Problem, why not in a few words."""
    where = urlsplit(url)
    target = url.partition(where.netloc)[2]
    head = f"{method} {target} HTTP/1.0\r\nHost: {where.netloc}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            with contextlib.closing(writer):
                writer.write(head.encode())
                answer = (await reader.readline()).decode(errors="replace").strip()
                headers_and_body = await reader.read()
    except TimeoutError as error:
        raise Problem(f"{target}: no answer in {limit_s:g} s") from error
    except (OSError, ValueError) as error:
        raise Problem(f"{target}: {getattr(error, 'strerror', None) or error}") from error
    if not re.match(r"HTTP/1.\d 200\b", answer):
        raise Problem(f"{target}: answers {answer[:40]!r}")
    return headers_and_body.partition(b"\r\n\r\n")[2]


def figures(metrics: bytes) -> Figures:
    sums: dict[bytes, float] = defaultdict(float)
    for name, value in _GAUGE.findall(metrics):
        sums[name] += float(value)
    requests = sums.pop(b"num_requests_running", 0.0) + sums.pop(b"num_requests_waiting", 0.0)
    return Figures(requests, tuple(sums[name] for name in sorted(sums)))
