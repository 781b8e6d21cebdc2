"""Writes docs/why/guarantees.md from the promises and the figures.

python -m tests.guarantees
"""

from tests.guarantees import page
from tests.guarantees.figures import ROOT

if __name__ == "__main__":
    page.write()
    print(f"written: {page.PATH.relative_to(ROOT)}")
