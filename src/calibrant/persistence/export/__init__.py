"""Fitted maps in the languages of other engines."""
