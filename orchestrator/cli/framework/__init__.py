"""How any command is written: flags, help, completion, exit codes, signals."""
