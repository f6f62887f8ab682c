"""PID 1 of the pod: starts and supervises the engine and the bridge, and says how they are. Standard library only.

spec reads pod.toml strictly (toml_reader) and command makes argv and env of it; machine is the table of states of one
service; logline and redact decide what of a line is kept and may leave; report types what the
pod says of itself. All of that is pure. The edges: processes, logtap and ctlsocket each own one outside thing, and
runner wires it all. Imports nothing of ours.
"""
