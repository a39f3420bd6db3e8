"""Certify."""
