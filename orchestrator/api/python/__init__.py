"""The public Python face: `Orchestrator`, `Run`, `Flow`, `Pipeline`, blocking forms."""
