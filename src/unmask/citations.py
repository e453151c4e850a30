"""Whom to cite for what was used, as BibTeX: the entries are in `references.bib` beside this file."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from unmask.errors import UsageError

AG = ("arnold1998", "torroba2023", "newman2023")
MARKOV_CHAINS = ("heckerman2000", "vehtari2021")

USES = {
    # constructions, and the joints of many blanks
    "product": ("devlin2019", "torroba2023"),
    "mrf-logit": ("wang2019", "goyal2022", "torroba2023"),
    "mrf-prob": ("wang2019", "goyal2022", "torroba2023"),
    "hcb": ("besag1974", "torroba2023"),
    "ag": (*AG, "anderson1965", "hestenes1952"),
    "ag-published": ("arnold1998", "torroba2023", "zermelo1929"),
    "ag-weighted": AG,
    "gibbs": ("heckerman2000", "grassmann1985"),
    "l2r": ("torroba2023",),
    "r2l": ("torroba2023",),
    "mixture": ("torroba2023", "heckerman2000"),
    "grid": AG,
    "chain": ("torroba2023", "uria2014"),
    "tree": ("chow1968", "pearl1988"),
    "learned": ("saunders1998", "efraimidis2006", "duffield2007", "horvitz1952"),
    # scores of sentences
    "pll": ("wang2019", "salazar2020"),
    "pll-word": ("kauf2023", "salazar2020"),
    "ag-chain": AG,
    # samplers; the joint's own draws need no citation beyond the joint's
    "gibbs-sampler": ("geman1984", *MARKOV_CHAINS),
    "block-gibbs": ("geman1984", *MARKOV_CHAINS),
    "metropolis": ("hastings1970", "goyal2022", "vehtari2021"),
    "passes": ("chow1968", "pearl1988", "chang2022", "benhamu2025"),
    # proxies of the dependence of two tokens
    "dependence": ("wu2025", "chang2022", "benhamu2025", "klass2025", "azangulov2026", "dapd2026"),
    # commands
    "evaluate": ("torroba2023", "arnold1989", "efron1979", "bowman2015", "narayan2018"),
    "benchmark": ("warstadt2020", "meier2021", "wilson1927"),
    "mutants": ("meier2021",),
    "train": (
        *("devlin2019", "liu2019", "conneau2020", "kudo2018", "wettig2023"),
        *("loshchilov2019", "arnold1989", "izmailov2018"),
    ),
    "isotropy": ("ethayarajh2019", "timkey2021", "mu2018", "chan1979"),
    "wsd": ("peters2018", "loureiro2019", "raganato2017", "miller1995", "miller1993"),
    "finetune": (
        *("devlin2019", "ramshaw1995", "tjong2000", "nakayama2018"),
        *("socher2013", "bowman2015", "glue2019", "derczynski2017", "balasuriya2009"),
    ),
    # the embedded model
    "english": ("devlin2019", "wang2020", "reimers2019", "loshchilov2019", "wettig2023"),
}
"""What a person may have used -> the keys of what it rests on, the most specific first where that matters."""


@cache
def references() -> dict[str, str]:
    """Return every BibTeX entry by its key."""
    text = (Path(__file__).parent / "references.bib").read_text(encoding="utf-8")
    entries = text.strip().split("\n\n")
    return {re.split(r"[{,]", entry, maxsplit=2)[1]: entry for entry in entries}


def citations(what: str | None = None) -> str:
    """Return the BibTeX entries of a method, a command or a model, or all of them."""
    if what is not None and what not in USES:
        raise UsageError(f"nothing is known to cite for '{what}': expected one of {', '.join(USES)}")
    known = references()
    return "\n\n".join(known[key] for key in (USES[what] if what is not None else known))
