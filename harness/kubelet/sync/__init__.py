"""The way from a wanted pod to its containers: a worker for each pod, its actions, starts, ends and repetitions."""
