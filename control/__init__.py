"""Everything an operator can do with a pod, without a screen: a library and the `passerelle` command.

models, errors and provider say what a pod is and what may be done with it; local/ is a pod of processes on this
machine, the default for trying it and for tests. podlink talks to a pod's bridge. observe/ turns one poll a second
into a frozen Snapshot by a pure reduce, and names what limits it. bench/ loads a pod. cli.py is every verb, each
with --json and the exit codes 0 done or healthy, 1 warning, 2 critical or refused, 3 unreachable, 64 usage.
"""
