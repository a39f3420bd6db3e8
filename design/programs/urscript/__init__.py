"""Universal Robots controllers: URScript programs."""
