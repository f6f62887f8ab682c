"""The screen: a Textual dashboard over one pod.

A frozen Snapshot (control.observe.snapshot) goes down by data binding; what the operator wants goes up as a message
and only app.py acts on it, through control. Screens and widgets see models and format.py: no I/O, no self.app, no
thread. A thing that cannot be reached is shown as a state with an age, never as "stopped" and never as a fresh number.
"""
