"""A bench for agents, and for the monitor: one format of tasks, one executor, snapshots in place of live services.

Each rollout is judged by its path, under the task's own spec and by the product's own monitor, and by its end.
"""
