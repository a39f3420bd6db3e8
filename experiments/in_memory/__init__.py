"""The chain in memory: problems, designs, programs, logs and models without a campaign's folder."""
