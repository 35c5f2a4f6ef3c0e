"""Packets between nodes: which node has which range of pods, and the routes and tunnels that lead there."""
