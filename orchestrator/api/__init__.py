"""What can be asked of the program, by its command line and by others' programs: a verb is one function.

Each command imports its own when it is given: `status` and `results` must answer at once, and a whole run's imports
take most of a second.
"""
