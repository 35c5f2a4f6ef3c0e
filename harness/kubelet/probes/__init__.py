"""The probes of containers (kubelet's pkg/kubelet/prober): startup, readiness and liveness."""
