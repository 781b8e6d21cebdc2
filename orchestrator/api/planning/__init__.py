"""Plan and probe."""
