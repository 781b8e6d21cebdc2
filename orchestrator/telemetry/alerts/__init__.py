"""What is watched with the metrics: alert rules for Prometheus, and a dashboard for Grafana."""
