"""Pass: give every task the signature of its computation."""

import json
from collections import Counter
from dataclasses import replace
from hashlib import sha256

import rfc8785

from dags.canonical.draft import Accepted

SCHEME = "braid-1"
"""The version of the signature scheme; part of every text that is hashed."""


def sign(accepted: Accepted) -> Accepted:
    """Give every task its text and the digest of the text.

    The text is canonical JSON: scheme, type, type version, config, and the multiset of inputs as (port, parent's
    signature, parent's port, count). A source task has its registered source instead of inputs.

    >>> signed = sign(settle_scopes(accepted("s:source > a:map > k:sink")))
    >>> signed.texts[0].decode()
    '["braid-1","source",1,{"source":"weather"},[["ann","weather",{"place":"string","value":"integer"}]]]'
    """
    texts: list[bytes] = [b""] * len(accepted.ids)
    digests: list[bytes] = [b""] * len(accepted.ids)
    heads: dict[str, bytes] = {}
    for i in accepted.order:
        kind = accepted.types[i]
        inputs = Counter((w.to_port, digests[w.origin].hex(), w.from_port) for w in accepted.inputs[i])
        # Lists of texts and counts: json writes those as RFC 8785 wants them, many times faster than rfc8785.
        origins = json.dumps(
            sorted([*edge, count] for edge, count in inputs.items()), ensure_ascii=False, separators=(",", ":")
        ).encode()
        if (source := accepted.registered[i]) is not None:
            origins = rfc8785.dumps([[source.owner, source.name, dict(source.schema.fields.items())]])
        if kind.name not in heads:
            heads[kind.name] = rfc8785.dumps([SCHEME, kind.name, kind.version])[:-1]
        texts[i] = b"%b,%b,%b]" % (heads[kind.name], accepted.config_texts[i], origins)
        digests[i] = sha256(texts[i]).digest()
    return replace(accepted, texts=tuple(texts), signatures=tuple(digests))
