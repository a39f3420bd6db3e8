"""Styles, scripts and templates of the pages."""
