"""PID 1 of the pod: starts and supervises the engine and the bridge, and says how they are. Standard library only.

spec.py reads pod.toml strictly; command.py turns it into argv and env; machine.py is the table of states of one
service; redact.py decides what may leave; report.py types what the pod says of itself. All of that is pure:
runner.py alone has processes, signals, sockets and the clock. Imports nothing of ours.
"""
