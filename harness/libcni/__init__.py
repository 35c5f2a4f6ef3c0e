"""The functions of libcni: network lists, requests to plugins, their execution, and the cache of results."""
