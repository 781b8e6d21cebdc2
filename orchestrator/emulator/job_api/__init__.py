"""The job API and the worker's API over HTTP; delivery of webhooks."""
