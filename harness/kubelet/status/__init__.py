"""The status of a pod: what the runtime has, what its probes say, and what the API shows of it."""
