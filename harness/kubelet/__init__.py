"""kubelet's part of a node: from Pod manifests to calls of the Container Runtime Interface.

Names and rules come from Kubernetes' kubelet (pkg/kubelet); docs/walkthrough.md tells them in order.
"""
