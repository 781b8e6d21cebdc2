"""How a run stands: the same for the engine that serves it and for those that follow it."""
