"""What a pipeline is, when it fires, what becomes of fires and flows."""
