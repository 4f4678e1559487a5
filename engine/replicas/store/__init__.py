"""The copy of a host in object storage: objects that are whole or absent, from which an empty machine is restored.

```text
claims/SITTING          who writes; a higher one ends all lower ones
states/SITTING-NUMBER   all files, and in which objects their contents are
rounds/SITTING-NUMBER   what a round changes, and the contents of its files
packs/SITTING-NUMBER    contents alone: of long rounds, and of files that outlived theirs
```

A sitting is one connection of a host's owner: its term, a number, and a random name. The state of a host is the latest
state of the highest sitting, and the rounds of that sitting that follow it. A sitting begins with a state, so what an
earlier owner still writes after that counts no more.
"""
