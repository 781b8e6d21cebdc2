"""What is known before a run begins: plan and probe, and a first configuration file."""
