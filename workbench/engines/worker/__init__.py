"""Work that may hang or take its process down, in a process of its own: ``host`` asks, ``child`` answers."""
