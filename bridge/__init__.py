"""In the pod: Anthropic Messages in, any OpenAI-speaking engine out, streaming, never leaking a connection.

A request flows request -> upstream -> sse -> decode -> events -> encode, held together by one Turn:
feed(bytes, now) -> list[bytes], eof(now), fail(error, now). All of that is pure; upstream.py alone opens
connections and app.py alone has routes. ledger.py knows every live turn; report.py types what /pod/report says.
Imports nothing of ours and nothing that the vLLM image lacks.
"""
