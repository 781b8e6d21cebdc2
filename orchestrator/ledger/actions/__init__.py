"""Who asked what of runs, flows and schedules, by which way, and what came of it."""
