"""libcni's part: network lists, requests to plugins, their execution, and the cache of results."""
