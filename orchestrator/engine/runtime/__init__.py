"""The shape of a part that acts by itself, tasks, heartbeat, watch, progress."""
