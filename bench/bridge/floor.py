"""The floor: FastAPI on uvicorn and httpx over aiohttp's transport, as the bridge has them; bytes relayed unread.

`python -m bench.bridge.floor PORT ENGINE_PORT`
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from httpx_aiohttp import AiohttpTransport


def app(engine: str) -> FastAPI:
    app = FastAPI(openapi_url=None)
    client = httpx.AsyncClient(transport=AiohttpTransport(), base_url=engine, timeout=httpx.Timeout(600))

    @app.post("/v1/chat/completions")
    async def relay(http: Request) -> StreamingResponse:
        headers = {"content-type": "application/json"}
        sent = client.build_request("POST", http.url.path, content=await http.body(), headers=headers)
        answer = await client.send(sent, stream=True)

        async def chunks() -> AsyncIterator[bytes]:
            try:
                async for chunk in answer.aiter_raw():
                    yield chunk
            finally:
                await answer.aclose()

        return StreamingResponse(chunks(), answer.status_code, media_type=answer.headers.get("content-type"))

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return app


if __name__ == "__main__":
    port, engine = int(sys.argv[1]), f"http://127.0.0.1:{sys.argv[2]}"
    uvicorn.run(app(engine), host="127.0.0.1", port=port, log_level="warning", access_log=False)
