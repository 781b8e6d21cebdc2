"""What pages can ask for: what a person confirms before, and what came of what was asked, by whichever way."""
