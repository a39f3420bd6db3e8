"""HTML report of a campaign: `data.write_report` writes one self-contained page and its data as JSON."""
