"""Twenty everyday sentences, chosen before the model was trained, and the answers that a reader lets pass.

The card shows what the model answers to them; `measure.py` counts the sensible ones.
"""

from __future__ import annotations

YEARS = " ".join(str(year) for year in range(1500, 2030))
SENSIBLE: dict[str, tuple[str, ...]] = {
    "The capital of France is [MASK].": ("paris",),
    "She [MASK] [MASK] the piano.": (
        "is was plays played sat started began enjoys loves loved sang sings",
        "playing on at to by with and",
    ),
    "A man is [MASK] a guitar on the street.": ("playing holding carrying tuning using practicing",),
    "The children are playing in the [MASK].": (
        "park snow water grass garden street yard pool playground field woods house rain sand mud "
        "school dirt sea sun fountain streets room",
    ),
    "He opened the [MASK] and went into the room.": ("door doors gate window curtain",),
    "Two dogs are [MASK] through the snow.": (
        "running walking playing jumping racing moving going bounding trotting",
    ),
    "The book was written by an English [MASK].": (
        "writer author poet novelist historian journalist woman man scholar playwright lawyer "
        "gentleman lady composer clergyman teacher critic",
    ),
    "I am very [MASK] to see you.": ("happy glad pleased excited sorry anxious eager grateful surprised",),
    "She was born in London in [MASK].": (
        f"{YEARS} january february march april may june july august september october november december",
    ),
    "The train [MASK] at the station.": (
        "stopped arrived arrives is was stops stood stands waits waited sits",
    ),
    "He drank a cup of [MASK].": ("tea coffee water wine milk chocolate brandy beer rum whiskey soup",),
    "A woman in a red [MASK] is walking her dog.": (
        "dress shirt coat jacket hat skirt sweater top outfit suit cap",
    ),
    "The film was [MASK] in 1998.": (
        "released made produced shot completed filmed shown finished premiered",
    ),
    "They were married in the [MASK].": (
        "church morning evening park afternoon village house cathedral country spring summer "
        "autumn winter town city chapel garden 1920s 1930s 1940s 1950s 1960s 1970s 1980s 1990s "
        "same hospital 1880s 1890s",
    ),
    "The river flows into the [MASK].": (
        "sea ocean lake bay valley gulf atlantic pacific danube rhine sound",
    ),
    "He is the [MASK] of the company.": (
        "president owner director founder head chairman ceo manager leader chief secretary chair "
        "member editor co",
    ),
    "It was a cold and dark [MASK].": ("night day morning evening winter place room one world afternoon",),
    "The band released its first [MASK] in 2005.": (
        "album single ep record song demo release studio cd video",
    ),
    "He put his [MASK] in his pocket.": (
        "hand hands watch money purse book phone letter pipe knife fingers",
    ),
    "The [MASK] [MASK] at the casino.": (
        "people man men woman women couple players crowd family young old",
        "are is was were work works worked gathered stayed sat arrived men",
    ),
}
"""By sentence, for each blank, the first answers that are sensible."""

SENTENCES = tuple(SENSIBLE)


def is_sensible(sentence: str, answers: list[list[str]]) -> bool:
    """Whether the first answer at every blank is among the sensible ones."""
    return all(best[0] in allowed.split() for best, allowed in zip(answers, SENSIBLE[sentence], strict=True))
