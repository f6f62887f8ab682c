"""PID 1 of the pod: starts and supervises the engine and the bridge, and says how they are. Standard library only."""

# spec reads pod.toml strictly (toml_reader) and command makes argv and env of it, plan compares two; machine is the
# table of states of one service; enginelog, preflight and idle judge; logline and redact decide what of a line is kept
# and may leave; hub has the rules of the Hub; report types what the pod says of itself. All of that is pure.
# The edges: processes, logtap, ctlsocket, published and hubworker (a child) each own one outside thing; keeper runs one
# service, fleet the engines, pod everything, answers tells of it, and runner wires it all. Imports nothing of ours.
