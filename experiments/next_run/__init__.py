"""Which run would teach most now, or whether enough is known."""
