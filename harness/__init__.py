"""The runtime's side of CNI: the functions of libcni, containerd and kubelet, on one machine.

Network lists are read from files (`networks`), a request is derived for each plugin (`request`), the executable
found on CNI_PATH is run (`execute`), its answer is read (`outcome`), and the final result is kept where libcni
keeps it (`cache`); `libcni` puts these together into the operations of SPEC.md section 3.

No module here imports a plugin: plugins are files on CNI_PATH, ours and other projects' alike.
"""
