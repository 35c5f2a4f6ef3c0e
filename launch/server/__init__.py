"""The server: executes plugins for their launchers (`launch.launcher`, `launch.client`), as they themselves would.

A process without a server needs nothing of this. `launch.server.protocol` has their packets.
"""
