"""The fork server: executes plugins for their launchers (`skel.launcher`, `skel.client`), as they themselves would.

A process without a server needs nothing of this. What the two say to each other is in `skel.forkserver.handoff`.
"""
