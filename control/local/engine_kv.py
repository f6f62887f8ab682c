"""The simulated KV cache: fixed blocks, reference counts, prefix reuse by chained keys, LRU eviction (pure)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence


def chain(text: str, width: int) -> list[int]:
    """One key per full block of `width` characters; a key stands for its block and for everything before it.

    Keys are compared within one process only: str hashes are salted per process, as they may be here.
    """
    keys: list[int] = []
    key = 0
    for start in range(0, len(text) - width + 1, width):
        key = hash((key, text[start : start + width]))
        keys.append(key)
    return keys


class KvCache:
    """Who holds which block. A block that nobody holds keeps its content, and can be reused, until it is evicted.

    vLLM sets one block aside (the null block, vllm/v1/core/block_pool.py), so that `usage` is over `blocks` - 1.
    """

    __slots__ = ("_by_key", "_free", "_keys", "_refs", "prefix_caching", "releases", "total")

    def __init__(self, blocks: int, *, prefix_caching: bool = True) -> None:
        if blocks < 2:
            raise ValueError(f"a KV cache needs at least 2 blocks, not {blocks}")
        self.total = blocks - 1
        self.prefix_caching = prefix_caching
        self.releases = 0
        """Grows whenever blocks become free: while it stands still, what did not fit still does not."""
        self._refs = [0] * self.total
        self._keys: list[int | None] = [None] * self.total
        self._by_key: dict[int, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(self.total))

    @property
    def free(self) -> int:
        """Blocks that nobody holds, reusable content included."""
        return len(self._free)

    @property
    def used(self) -> int:
        return self.total - len(self._free)

    @property
    def usage(self) -> float:
        """0 to 1, as vllm:kv_cache_usage_perc."""
        return self.used / self.total

    @property
    def reusable(self) -> int:
        """Blocks whose content a prefix can still hit, held or not."""
        return len(self._by_key)

    def refs(self, block: int) -> int:
        return self._refs[block]

    def match(self, keys: Iterable[int]) -> list[int]:
        """The blocks of the longest cached prefix. Takes nothing."""
        found: list[int] = []
        if not self.prefix_caching:
            return found
        by_key = self._by_key
        for key in keys:
            block = by_key.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def idle(self, blocks: Iterable[int]) -> int:
        """How many of these nobody holds now: claiming them takes that many from `free`."""
        return sum(1 for block in blocks if self._refs[block] == 0)

    def claim(self, blocks: Iterable[int]) -> None:
        """Holds blocks that `match` found."""
        for block in blocks:
            if self._refs[block] == 0:
                del self._free[block]
            self._refs[block] += 1

    def allocate(self, count: int) -> list[int]:
        """`count` blocks, least recently used first; their old content is evicted. ValueError if they are not free."""
        if count > len(self._free):
            raise ValueError(f"{count} blocks asked for, {len(self._free)} free")
        taken: list[int] = []
        for _ in range(count):
            block, _none = self._free.popitem(last=False)
            old = self._keys[block]
            if old is not None:
                del self._by_key[old]
                self._keys[block] = None
            self._refs[block] = 1
            taken.append(block)
        return taken

    def publish(self, block: int, key: int) -> None:
        """A held block is full: others may hit it from now on. Of two with one content the first is hit."""
        if self.prefix_caching and self._keys[block] is None and key not in self._by_key:
            self._by_key[key] = block
            self._keys[block] = key

    def forget(self) -> None:
        """No prefix can be hit any more; who holds blocks keeps them."""
        self._keys = [None] * self.total
        self._by_key.clear()

    def release(self, blocks: Sequence[int]) -> None:
        """Lets go, last block first, so that a prefix outlives its tail. ValueError when a block is not held."""
        for block in reversed(blocks):
            if self._refs[block] < 1:
                raise ValueError(f"block {block} is not held")
            self._refs[block] -= 1
            if self._refs[block] == 0:
                self._free[block] = None
        if blocks:
            self.releases += 1
