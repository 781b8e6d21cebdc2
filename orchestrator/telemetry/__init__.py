"""Metrics and traces, from what is in the ledger; alone knows Prometheus and OpenTelemetry."""
