"""The ways into the service: what is asked for by each, what an answer means there, and what a crash may cost."""
