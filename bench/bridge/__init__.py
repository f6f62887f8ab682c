"""The bridge beside its floor and its peers, in one run: who relays a chunk, and a whole request, for how much CPU.

engine.py   a scripted engine that streams at a set pace
clients.py  the load: many streams over raw sockets, each chunk stamped with the time that the engine sent it
floor.py    the same server and HTTP client as the bridge, relaying bytes without a look at them
bodies.py   requests of the shape of Claude Code's, in both dialects
servers.py  what is measured, as processes: start, CPU, memory, stop
__main__.py the phases and the table
"""
