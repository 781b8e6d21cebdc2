"""Rules from facts to findings, for `doctor` and `status`."""
