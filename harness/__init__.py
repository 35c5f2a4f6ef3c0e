"""The runtime's side of CNI: the functions of libcni, containerd and kubelet, on one machine.

The package `libcni` reads network lists from files (`networks`) and derives a request for each plugin (`request`). It
runs the executable found on CNI_PATH (`execute`), reads its answer (`outcome`), and stores the final result in libcni's
own format (`cache`). `operations` combines these into the operations of SPEC.md section 3.

No module here imports a plugin: plugins are files on CNI_PATH, ours and other projects' alike.
"""
