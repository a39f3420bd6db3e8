"""A payload campaign: the arm is known, what it carries is not."""
