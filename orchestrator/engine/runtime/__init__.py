"""The shape of a part that acts by itself, its scope, tasks, progress."""
