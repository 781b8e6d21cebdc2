"""What is read for pages: one open ledger, few reads at once, and each view once for all who look."""
