"""The listener: the one part of the program that takes requests. It notes what it is told and decides nothing."""
