"""In the pod: Anthropic Messages in, any OpenAI-speaking engine out, streaming, never leaking a connection."""

# A request flows request -> upstream -> decode -> blocks, held together by one Answer (or a Turn, which translates), in
# turn.py: feed(bytes, now) -> list[bytes], eof(now), fail(error, now). All of that is pure. exchange.py moves the bytes
# of one request and frees both ends; upstream.py alone opens connections to the engine, supervisor.py alone to the
# supervisor's socket; app.py alone has routes, and the gate before them; server.py owns the socket and the signals.
# ledger.py knows every live turn and where the cache broke; report.py types what /pod/report says. Imports nothing of
# ours and nothing that the vLLM image lacks.
