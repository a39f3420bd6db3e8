"""The page that says what a campaign taught: `write.write_report`, one file that needs no network, and its numbers."""
