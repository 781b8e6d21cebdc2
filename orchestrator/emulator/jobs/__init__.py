"""The service's jobs as a pure world."""
