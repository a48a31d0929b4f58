"""The ``vendor`` engine: the real ops of released packages, each release in a process of its own."""
