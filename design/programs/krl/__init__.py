"""KUKA controllers: KRL programs with spline blocks, and RSI."""
