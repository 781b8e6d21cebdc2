"""What people are shown who ask how: the screens of `--help` and of `orchestrator help`, and the answer to a mistyped
command line.
"""
