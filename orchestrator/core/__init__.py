"""The rules, as pure functions and frozen values: no I/O, no clock, no logging, no chance."""
