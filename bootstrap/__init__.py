"""PID 1 of the pod: starts and supervises the engine and the bridge, and says how they are. Standard library only.

spec.py reads pod.toml strictly (checks, toml_reader, toml_lines); command.py turns it into argv and env; machine.py is
the table of states of one service (events, service); logline.py and redact.py decide what of a line is kept and may
leave; host.py reads nvidia-smi; report.py types what the pod says of itself. All of that is pure. The edges: processes,
probes, logtap and ctlsocket each own one outside thing, startup has what must be had first, keeper acts for one
machine, runner wires it all. Imports nothing of ours.
"""
