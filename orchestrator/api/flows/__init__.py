"""Pipelines, schedules, flows, and their files and commands."""
