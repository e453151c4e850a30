"""The memory budget against the most that a process held beyond its loaded model: an exact pair, `ag` and its
metrics, for several budgets.

Each runs in a process of its own. Below about 550 MB the two tables of the embedded model do not fit, and are
recomputed from the states wherever they are read.
"""

from __future__ import annotations

from typing import Any

from machine import describe, in_own_process, parser, table
from published import TEXT

BUDGETS = ("4GB", "1GB", "500MB")


def measure(text: str = TEXT, model: str = "english", budgets: tuple[str, ...] = BUDGETS) -> dict[str, Any]:
    """Return what each budget's process reports."""
    return {
        budget: in_own_process(
            *("exact_pair.py", "--only-ours", "--methods", "ag", "--text", text),
            *("--model", model, "--memory", budget),
        )
        for budget in budgets
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--text", default=TEXT, help="two words in braces")
    options.add_argument("--model", default="english")
    options.add_argument("--budgets", nargs="+", default=BUDGETS)
    print(f"## The memory budget\n\n{describe()}\n")
    rows = [
        (budget, f"{one['peak_bytes'] / 1e9:.2f} GB", f"{one['seconds']:.0f} s")
        for budget, one in measure(**vars(options.parse_args())).items()
    ]
    print(table(("`--memory`", "most held beyond the model", "the exact pair"), rows))


if __name__ == "__main__":
    main()
