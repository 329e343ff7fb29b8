"""Prompt templates as package data, and how they are filled."""
