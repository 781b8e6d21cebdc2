"""How the values of settings are written: from the texts that people give, and back to them."""
