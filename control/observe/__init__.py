"""From one poll a second to a frozen Snapshot: sources -> Update -> reduce -> Snapshot -> rules -> Finding.

sources.py does the polling; everything else is pure. A failed poll is an Update too: what cannot be reached becomes
a state with an age. Counters survive the restart of what counts them.
"""
