"""Draw the book's pictures that do not depend on a run.

Run from the project's root: ``.venv/bin/python book/figures/make_figures.py``. It prints the alt
text that belongs into the page; a test compares the two.
"""

from __future__ import annotations

from pathlib import Path

from harmony_utils.plots import method_overview


def main() -> None:
    """Draw the picture of the method."""
    figure, alt = method_overview()
    target = Path(__file__).with_name("method_overview.png")
    figure.savefig(target, dpi=200, metadata={"Software": None})
    print(f"{target.name}\n{alt}")


if __name__ == "__main__":
    main()
