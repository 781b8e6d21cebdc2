"""Lines that are too narrow for what is to go over them."""
