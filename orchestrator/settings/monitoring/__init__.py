"""What can be set of the dashboard, of metrics and of who is told."""
