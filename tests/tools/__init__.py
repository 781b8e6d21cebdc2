"""The tools that people use with the service, unmodified, against the emulator: what works, and why the rest does not.

`python -m tests.tools --record` installs them by their ordinary clients (pip, npm) into a scratch folder, tries each of
their calls against `emulate` and `emulate --strict`, and writes the table of docs/reference/tools.md.
"""
