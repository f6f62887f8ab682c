"""The server on its socket, and what signals do to it: the first SIGTERM drains, the second ends."""

import asyncio
import faulthandler
import logging
import signal
import socket
from types import FrameType
from typing import Any

import uvicorn

from bridge.app import Service
from bridge.config import Config

log = logging.getLogger("bridge")

LINGER_S = 0.5  # after the listening socket is closed: a connection just accepted may still bring its request
END_S = 2.0  # what clients that do not read get to take their last event
KEEP_ALIVE_S = 120  # longer than a client pauses between turns: an idle connection that we close may be in use


# uvicorn with our signals. Stops accepting first, so that the next bridge on the same socket takes over.
class Server(uvicorn.Server):
    def __init__(self, config: Config) -> None:
        self._drain_s = config.drain_seconds
        self._service = Service(config, lambda: len(self.server_state.connections))
        quiet: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False, "ws": "none"}
        super().__init__(uvicorn.Config(self._service.app(), lifespan="on", timeout_keep_alive=KEEP_ALIVE_S, **quiet))

    def stop(self) -> None:
        if self.should_exit:
            return self._end("told to end now")
        self.should_exit = self._service.closing = True
        log.info("draining: no new connections, streams in flight go on for %.0f s at most", self._drain_s)
        asyncio.get_running_loop().call_later(self._drain_s, self._end, "the drain limit has passed")

    # In place of uvicorn's, which kills a draining server on nothing but a second SIGINT.
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        asyncio.get_running_loop().call_soon_threadsafe(self.stop)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await asyncio.sleep(LINGER_S)
        await super().shutdown(sockets)

    def _end(self, why: str) -> None:
        log.warning("ending open streams: %s", why)
        self._service.stopped.set()
        asyncio.get_running_loop().call_later(END_S, self._cut)

    def _cut(self) -> None:
        self.force_exit = True
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()


# The supervisor's socket, or one of our own. Raises OSError.
def listen(config: Config) -> socket.socket:
    if config.listen_fd is not None:
        return socket.socket(fileno=config.listen_fd)
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    return socket.create_server((config.host, config.port), family=family, backlog=2048)


# Serves until told to stop. Raises OSError when there is no socket to serve on.
def run(config: Config) -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # stacks to stderr, also of a loop that hangs
    with listen(config) as sock:
        log.info("listening on %s", sock.getsockname())
        Server(config).run([sock])
