"""ABB controllers: RAPID modules with MoveAbsJ, and Externally Guided Motion."""
