"""One module per controller: its capabilities as data, and what writes its files."""
