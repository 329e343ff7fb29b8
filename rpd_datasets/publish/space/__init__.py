"""The metric's Space: its files, and the page that runs in it."""
