"""Certification of motions: limits proven to hold, between samples too."""
