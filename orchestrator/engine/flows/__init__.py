"""Schedules, flows, stages, hand-over, notifications."""
