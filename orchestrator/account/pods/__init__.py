"""Pods: records, specs, actions."""
