"""The boundary between kubelet and a container runtime: the Container Runtime Interface, version 1.

`service` has the calls, `messages` their arguments; both have the names of `k8s.io/cri-api`. `harness.containerd`
implements the calls, and `remote` passes them on to any other runtime.
"""
