"""Figures of many nodes on one machine: reachability, time, memory."""
