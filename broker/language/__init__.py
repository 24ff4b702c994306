"""The small languages of a scope: path, tool and host patterns, URLs, and their inclusion."""
