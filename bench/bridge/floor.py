"""The floor: FastAPI on uvicorn and aiohttp's client, as the bridge has them; bytes relayed unread.

`python -m bench.bridge.floor PORT ENGINE_PORT`
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import aiohttp
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse


def app(engine: str) -> FastAPI:
    app = FastAPI(openapi_url=None)
    sessions: list[aiohttp.ClientSession] = []

    def session() -> aiohttp.ClientSession:
        """Made in the loop that serves."""
        if not sessions:
            timeout = aiohttp.ClientTimeout(total=None)
            sessions.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout))
        return sessions[0]

    @app.post("/v1/chat/completions")
    async def relay(http: Request) -> StreamingResponse:
        headers = {"content-type": "application/json"}
        answer = await session().post(engine + http.url.path, data=await http.body(), headers=headers)

        async def chunks() -> AsyncIterator[bytes]:
            try:
                async for chunk in answer.content.iter_any():
                    yield chunk
            finally:
                answer.close()

        return StreamingResponse(chunks(), answer.status, media_type=answer.headers.get("content-type"))

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return app


if __name__ == "__main__":
    port, engine = int(sys.argv[1]), f"http://127.0.0.1:{sys.argv[2]}"
    uvicorn.run(app(engine), host="127.0.0.1", port=port, log_level="warning", access_log=False)
