"""What is read, and how: files, folders, the Hub and rows in memory, in any layout."""
