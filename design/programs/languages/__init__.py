"""Interpreters of the languages that controllers speak: text -> closures -> what would have moved, and when."""
