"""FANUC controllers: TP programs and Stream Motion."""
