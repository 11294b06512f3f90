"""Values that cross an actor boundary: frozen, SI units, numpy arrays read-only, no behaviour beyond conversion."""
