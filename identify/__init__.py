"""Learn the parameters from what was measured."""
