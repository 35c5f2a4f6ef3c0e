"""The runtime of this project: sandboxes, containers and images below one folder, without a daemon."""
