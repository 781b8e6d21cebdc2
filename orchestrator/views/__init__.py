"""What people and programs are shown, as plain values."""
