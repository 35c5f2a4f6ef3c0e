"""The container runtime of this project: sandboxes and containers on a node, their state in files.

It does as containerd's CRI server does, in the same order. A new process takes over the sandboxes and
containers of an ended one.
"""
