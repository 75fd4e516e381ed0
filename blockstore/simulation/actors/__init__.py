"""The processes of the foundation: each file is one kind, and acts through the doors that its users
have."""
