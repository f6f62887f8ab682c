"""What Claude Code must be told to use a pod: base URL, token, model, and the window that it must not exceed."""

from __future__ import annotations

from control.local.provider import LocalProvider
from control.models import PodId, Target
from control.podlink import PodLink


async def claude_code_env(pod_id: PodId) -> dict[str, str]:
    """Environment variables for the `claude` command.

    CLAUDE_CODE_MAX_CONTEXT_TOKENS matters: for a model that it does not know, Claude Code 2.1 assumes a window of
    1 000 000 tokens. CLAUDE_CODE_ATTRIBUTION_HEADER=0 leaves out a line that changes from run to run at the very
    head of the prompt, where it would cost the prefix cache.
    """
    provider = LocalProvider()
    pod, tokens = await provider.get(pod_id), await provider.tokens(pod_id)
    async with PodLink(Target(pod.url or "", tokens.operator)) as link:
        engine = (await link.report()).engine
    env = {
        "ANTHROPIC_BASE_URL": pod.url or "",
        "ANTHROPIC_AUTH_TOKEN": tokens.client,
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    }
    if engine.models:
        env["ANTHROPIC_MODEL"] = engine.models[0]
    if engine.max_model_len:
        env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(engine.max_model_len)
    return env
