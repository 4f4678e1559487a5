"""Names: any text as PDDL can write it, and back.

PDDL knows no upper case and few signs, so all else is written as its number.

>>> name("out", "Street", "out")
'out___53_treet__out'
>>> parts("out___53_treet__out")
('out', 'Street', 'out')
"""

import re

_OTHER = re.compile(r"[^a-z0-9-]")
_TOKEN = re.compile(r"(__)|_([0-9a-f]+)_|([a-z0-9-]+)")


def name(kind: str, *texts: str) -> str:
    """The name of something of a kind."""
    return "__".join([kind, *(_OTHER.sub(lambda found: f"_{ord(found[0]):x}_", text) for text in texts)])


def parts(found: str) -> tuple[str, ...]:
    """The kind of a name, and the texts that it is made of."""
    texts = [""]
    for separator, number, plain in _TOKEN.findall(found):
        if separator:
            texts.append("")
        else:
            texts[-1] += plain or chr(int(number, 16))
    return tuple(texts)
