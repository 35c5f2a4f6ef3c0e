"""The agent's decisions, without a kernel."""
