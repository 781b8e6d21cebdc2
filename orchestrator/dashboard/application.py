"""The dashboard as one ASGI application."""
