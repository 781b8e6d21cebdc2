"""Pods, endpoints, templates and secrets as pure worlds, and their bodies."""
