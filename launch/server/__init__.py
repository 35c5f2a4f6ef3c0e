"""The server: executes plugins for their launchers (`launch.launcher`, `launch.client`), as they themselves would.

A process without a server needs nothing of this. `launch.server.protocol` says what the two send each other.
"""
