"""Whom to cite for which method, as BibTeX."""

from __future__ import annotations

from unmask.errors import Misuse

REFERENCES = {
    "torroba2023": """@inproceedings{torroba2023,
  title     = {Deriving Language Models from Masked Language Models},
  author    = {Torroba Hennigen, Lucas and Kim, Yoon},
  booktitle = {Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics},
  year      = {2023}
}""",
    "arnold1998": """@article{arnold1998,
  title   = {Distributions most nearly compatible with given families of conditional distributions},
  author  = {Arnold, Barry C. and Gokhale, D. V.},
  journal = {Test},
  volume  = {7},
  year    = {1998}
}""",
    "newman2023": """@article{newman2023,
  title   = {Efficient Computation of Rankings from Pairwise Comparisons},
  author  = {Newman, M. E. J.},
  journal = {Journal of Machine Learning Research},
  volume  = {24},
  year    = {2023}
}""",
    "besag1974": """@article{besag1974,
  title   = {Spatial Interaction and the Statistical Analysis of Lattice Systems},
  author  = {Besag, Julian},
  journal = {Journal of the Royal Statistical Society: Series B},
  volume  = {36},
  year    = {1974}
}""",
    "wang2019": """@inproceedings{wang2019,
  title     = {{BERT} has a Mouth, and It Must Speak: {BERT} as a {M}arkov Random Field Language Model},
  author    = {Wang, Alex and Cho, Kyunghyun},
  booktitle = {Proceedings of the Workshop on Methods for Optimizing and Evaluating Neural Language
               Generation},
  year      = {2019}
}""",
    "goyal2022": """@inproceedings{goyal2022,
  title     = {Exposing the Implicit Energy Networks behind Masked Language Models via
               {M}etropolis--{H}astings},
  author    = {Goyal, Kartik and Dyer, Chris and Berg-Kirkpatrick, Taylor},
  booktitle = {International Conference on Learning Representations},
  year      = {2022}
}""",
    "heckerman2000": """@article{heckerman2000,
  title   = {Dependency Networks for Inference, Collaborative Filtering, and Data Visualization},
  author  = {Heckerman, David and Chickering, David Maxwell and Meek, Christopher and
             Rounthwaite, Robert and Kadie, Carl},
  journal = {Journal of Machine Learning Research},
  volume  = {1},
  year    = {2000}
}""",
    "grassmann1985": """@article{grassmann1985,
  title   = {Regenerative Analysis and Steady State Distributions for {M}arkov Chains},
  author  = {Grassmann, Winfried K. and Taksar, Michael I. and Heyman, Daniel P.},
  journal = {Operations Research},
  volume  = {33},
  year    = {1985}
}""",
    "salazar2020": """@inproceedings{salazar2020,
  title     = {Masked Language Model Scoring},
  author    = {Salazar, Julian and Liang, Davis and Nguyen, Toan Q. and Kirchhoff, Katrin},
  booktitle = {Proceedings of the 58th Annual Meeting of the Association for Computational Linguistics},
  year      = {2020}
}""",
    "kauf2023": """@inproceedings{kauf2023,
  title     = {A Better Way to Do Masked Language Model Scoring},
  author    = {Kauf, Carina and Ivanova, Anna},
  booktitle = {Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics},
  year      = {2023}
}""",
    "vehtari2021": """@article{vehtari2021,
  title   = {Rank-Normalization, Folding, and Localization: An Improved R-hat for Assessing Convergence of
             {MCMC}},
  author  = {Vehtari, Aki and Gelman, Andrew and Simpson, Daniel and Carpenter, Bob and
             B{\"u}rkner, Paul-Christian},
  journal = {Bayesian Analysis},
  volume  = {16},
  year    = {2021}
}""",
    "devlin2019": """@inproceedings{devlin2019,
  title     = {{BERT}: Pre-training of Deep Bidirectional Transformers for Language Understanding},
  author    = {Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina},
  booktitle = {Proceedings of NAACL-HLT},
  year      = {2019}
}""",
}

METHODS = {
    "product": ("devlin2019", "torroba2023"),
    "mrf-logit": ("wang2019", "goyal2022", "torroba2023"),
    "mrf-prob": ("wang2019", "goyal2022", "torroba2023"),
    "hcb": ("besag1974", "torroba2023"),
    "ag": ("arnold1998", "torroba2023", "newman2023"),
    "ag-published": ("arnold1998", "torroba2023"),
    "ag-weighted": ("arnold1998", "torroba2023", "newman2023"),
    "gibbs": ("heckerman2000", "grassmann1985"),
    "l2r": ("torroba2023",),
    "r2l": ("torroba2023",),
    "mixture": ("torroba2023", "heckerman2000"),
    "grid": ("arnold1998", "torroba2023", "newman2023"),
    "chain": ("torroba2023",),
    "pll": ("wang2019", "salazar2020"),
    "pll-word": ("kauf2023", "salazar2020"),
    "metropolis": ("goyal2022", "vehtari2021"),
}


def citations(method: str | None = None) -> str:
    """Return the BibTeX entries of a method, or of all of them."""
    if method is not None and method not in METHODS:
        raise Misuse(f"unknown method '{method}': expected one of {', '.join(METHODS)}")
    names = METHODS[method] if method is not None else tuple(REFERENCES)
    return "\n\n".join(REFERENCES[name] for name in names)
