"""How runs, endpoints and the process at work stood, every ten seconds: the history behind charts and metrics."""
