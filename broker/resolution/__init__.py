"""How a call's arguments are read: roles, paths in the kernel's order, patches, patterns."""
