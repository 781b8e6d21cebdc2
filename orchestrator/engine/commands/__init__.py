"""What other processes ask for, carried out once."""
