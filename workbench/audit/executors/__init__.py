"""Where the units of an audit are worked off: in this process, in a pool of processes, or on a Ray cluster."""
