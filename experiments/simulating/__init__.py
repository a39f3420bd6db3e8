"""`excitor simulate`: the virtual robot runs a campaign's programs, and logs come back."""
