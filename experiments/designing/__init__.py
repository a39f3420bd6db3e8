"""The design stage: from campaign.toml to design.json and plan.html."""
