"""Traces of jobs that have ended, made of their rows and sent by OpenTelemetry: nothing of it is in the engine."""
