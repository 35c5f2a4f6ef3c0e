"""The boundary between kubelet and a container runtime: the Container Runtime Interface, version 1.

`service` has the calls, `messages` their arguments; both have the names of `k8s.io/cri-api`. Behind the calls are the
runtime of this project, `builtin`, and a client for any other, `remote`.
"""
