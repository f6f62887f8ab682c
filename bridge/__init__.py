"""In the pod: Anthropic Messages in, any OpenAI-speaking engine out, streaming, never leaking a connection."""

# A request flows request -> upstream -> sse -> decode -> blocks -> encode, held together by one Answer (or a Turn,
# which translates): feed(bytes, now) -> list[bytes], eof(now), fail(error, now). All of that is pure. exchange.py moves
# the bytes of one request and frees both ends; upstream.py alone opens connections to the engine, supervisor.py alone
# to the supervisor's socket; app.py alone has routes, gate.py asks for tokens before them; server.py owns the socket
# and the signals. ledger.py knows every live turn, prefix.py where the cache broke; report.py types what /pod/report
# says; metrics.py is Prometheus text. Imports nothing of ours, nothing that the vLLM image lacks, and httpx-aiohttp.
