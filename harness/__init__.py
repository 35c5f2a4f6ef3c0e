"""The runtime's side of CNI: what libcni, containerd and kubelet do, on one machine.

Network lists are read from files (`networks`), a request is derived for each plugin (`request`), the executable
found on CNI_PATH is run (`execute`), its answer is read (`outcome`), and the final result is kept where libcni
keeps it (`cache`); `libcni` puts these together into the operations of SPEC.md section 3.

Nothing here imports a plugin: plugins are files on CNI_PATH, ours and anyone else's alike.
"""
