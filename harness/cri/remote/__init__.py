"""A client of a container runtime behind a Unix socket: the Container Runtime Interface, version 1, over gRPC."""
