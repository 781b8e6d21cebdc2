"""How runs stand, and why (`status`, `doctor`)."""
