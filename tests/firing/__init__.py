"""Schedules over ten weeks of worlds in which processes are killed at every commit, sleep, and have their clocks set."""
