"""The embedded pod: real processes on this machine, with a simulated engine or a real `vllm serve`.

provider.py is the Provider of it. engine.py is the simulated engine's only file with sockets and a clock; its
scheduler, KV cache and script are pure. What is simulated is the GPU's time, never the bridge or the supervisor.
"""
