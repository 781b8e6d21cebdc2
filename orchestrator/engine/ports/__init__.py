"""What comes from outside: clock, services, listener, bounds; the only place that tests replace."""
