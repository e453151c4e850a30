"""Draw what averages over orders save, from bits_per_byte.json (of recipes/bits_per_byte.py).

python docs/figures/bits_per_byte.py
"""

from __future__ import annotations

import json
from typing import Any

from drawing import HERE, bars, pyplot, save

DATA = {"snli": ("SNLI", "#1f6fb4"), "xsum": ("XSum", "#c1571f"), "wikipedia": ("Wikipedia", "#7a9a3a")}
ORDERS = {"orders-2": 2, "orders-4": 4, "orders-8": 8}


def draw(found: dict[str, Any]) -> None:
    """Draw bits per byte by the number of orders, and their gain over the chain, with `ag-chain` beside."""
    plt = pyplot("bits_per_byte")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6))
    here = {name: style for name, style in DATA.items() if name in found}
    for place, (name, (label, colour)) in enumerate(here.items()):
        methods = found[name]["methods"]
        shift = 0.06 * (place - (len(here) - 1) / 2)
        whole = [methods["chain"], *(methods[method] for method in ORDERS)]
        value, ends = bars([one["bits_per_byte"] for one in whole])
        at = [i + shift for i in range(len(whole))]
        left.errorbar(at, value, ends, fmt="o-", ms=3.5, lw=1.3, color=colour, label=label)
        gains = [methods[method]["gain"] for method in ("ag-chain", *ORDERS)]
        value, ends = bars(gains)
        right.errorbar(at, value, ends, fmt="o", ms=3.5, lw=1.3, color=colour, label=label)
    left.set_xticks(range(1 + len(ORDERS)), ["1 (chain)", *map(str, ORDERS.values())])
    left.set(xlabel="orders", ylabel="bits per byte, N given", ylim=(0, None))
    right.set_xticks(range(1 + len(ORDERS)), ["ag-chain", *(f"{n} orders" for n in ORDERS.values())])
    right.axhline(0, color="#444", lw=0.8)
    right.set(ylabel="bits per byte fewer than chain")
    for axis in (left, right):
        axis.grid(axis="y", alpha=0.3)
    right.legend(frameon=False, fontsize=8, loc="upper left")
    save(figure, "bits_per_byte")


if __name__ == "__main__" and (HERE / "bits_per_byte.json").exists():
    draw(json.loads((HERE / "bits_per_byte.json").read_text(encoding="utf-8")))
