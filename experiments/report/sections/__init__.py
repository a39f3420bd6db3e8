"""The report's sections: each a small function from the report's data to a piece of HTML."""
