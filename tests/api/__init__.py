"""The face of the program for other programs, on virtual time."""
