"""Released libraries that register selector ops: out of wheels, kept in a user's cache, packed for other machines."""
