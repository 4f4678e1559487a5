"""Topics of short texts: by naive Bayes, by a mixture of topics as LDA has it, and by such a mixture over phrases."""

import math
from typing import Any

TOPICS = ("sports", "weather", "politics", "music")
BACKGROUND = ("the", "today", "my", "really", "again", "this", "great", "just", "so", "with", "about", "we")
"""Words of any topic."""
OWN = {
    "sports": ("goal", "match", "team", "coach", "league", "score", "penalty", "stadium", "keeper", "final"),
    "weather": ("rain", "sunny", "cloud", "snow", "degrees", "forecast", "humid", "thunder", "fog", "breeze"),
    "politics": ("vote", "minister", "law", "party", "senate", "budget", "debate", "mayor", "poll", "treaty"),
    "music": ("guitar", "album", "concert", "song", "singer", "chorus", "drums", "melody", "tour", "lyrics"),
}
"""Words that say the topic, the most frequent first."""
PHRASES = {
    "red card": "sports",
    "full court": "sports",
    "front row": "sports",
    "cold front": "weather",
    "heat wave": "weather",
    "storm track": "weather",
    "court ruling": "politics",
    "red line": "politics",
    "front bench": "politics",
    "record label": "music",
    "sound wave": "music",
    "title track": "music",
}
"""Words that say the topic together, and mislead one by one."""
MISLEADING = {
    "red": "politics", "card": "music", "full": "weather", "court": "politics", "front": "politics", "row": "music",
    "cold": "music", "heat": "sports", "wave": "music", "storm": "sports", "track": "sports", "ruling": "sports",
    "line": "music", "bench": "sports", "record": "sports", "label": "politics", "sound": "politics", "title": "sports",
}  # fmt: skip
"""The topic in which each of these words is most frequent by itself."""
SAMPLED = 6
"""How many of each topic's words the small labelled sample has."""
FEW, MANY = 12, 25
"""Rounds of the maximisation. With phrases it takes more of them until one topic stands out."""
PRIOR = 0.1
NOISE = "noise"


def weights_of(topic: str) -> dict[str, float]:
    """How often each word comes in texts of a topic, out of all of them."""
    weights = dict.fromkeys(BACKGROUND, 0.2)
    weights |= {word: 2.0 / (at + 2) for at, word in enumerate(OWN[topic])}
    weights |= {word: 0.3 if at == topic else 0.1 for word, at in MISLEADING.items()}
    weights |= {phrase: 1.0 for phrase, at in PHRASES.items() if at == topic}
    return weights


SHARES = {topic: weights_of(topic) for topic in TOPICS} | {NOISE: dict.fromkeys(BACKGROUND, 1.0)}
SUMS = {topic: sum(weights.values()) for topic, weights in SHARES.items()}
RARE = 0.002
"""The share of a word that a topic does not have."""
SAMPLE_COUNTS = {
    topic: {word: 1 + round(2 * weight) for word, weight in SHARES[topic].items() if word not in OWN[topic][SAMPLED:]}
    for topic in TOPICS
}
"""What was counted in the sample."""
TOTALS = {topic: sum(counts.values()) for topic, counts in SAMPLE_COUNTS.items()}
VOCABULARY = len({word for counts in SAMPLE_COUNTS.values() for word in counts})


def bayes(event: dict[str, Any]) -> dict[str, Any]:
    """The most probable topic if words are independent, by counts of a small sample."""
    words = event["text"].split()
    logs = {
        topic: sum(math.log((SAMPLE_COUNTS[topic].get(word, 0) + 1) / (TOTALS[topic] + VOCABULARY)) for word in words)
        for topic in TOPICS
    }
    best = max(logs.values())
    return _best({topic: math.exp(log - best) for topic, log in logs.items()})


def mixture(event: dict[str, Any]) -> dict[str, Any]:
    """The topic with the largest share in the text, where each word is of some topic or of none."""
    return _best(_shares(event["text"].split(), FEW))


def phrases(event: dict[str, Any]) -> dict[str, Any]:
    """Likewise, with phrases as single words."""
    words, terms = event["text"].split(), []
    at = 0
    while at < len(words):
        pair = " ".join(words[at : at + 2])
        known = pair in PHRASES
        terms.append(pair if known else words[at])
        at += 2 if known else 1
    return _best(_shares(terms, MANY))


def _shares(words: list[str], rounds: int) -> dict[str, float]:
    """The shares of topics in a text, by expectation maximisation."""
    kinds = list(SHARES)
    given = [[SHARES[kind].get(word, RARE) / SUMS[kind] for kind in kinds] for word in words]
    shares = [1.0 / len(kinds)] * len(kinds)
    for _ in range(rounds):
        sums = [PRIOR] * len(kinds)
        for chances in given:
            joint = [share * chance for share, chance in zip(shares, chances, strict=True)]
            whole = sum(joint)
            sums = [already + part / whole for already, part in zip(sums, joint, strict=True)]
        whole = sum(sums)
        shares = [total / whole for total in sums]
    return {kind: share for kind, share in zip(kinds, shares, strict=True) if kind != NOISE}


def _best(shares: dict[str, float]) -> dict[str, Any]:
    # Rounded, so that topics that are as probable are equal to the last digit.
    best = max(TOPICS, key=lambda topic: round(shares[topic], 9))
    return {"found": best, "score": shares[best] / sum(shares.values())}
