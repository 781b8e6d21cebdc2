"""The commands by which people and monitoring look on: the dashboard, metrics, messages, reports."""
