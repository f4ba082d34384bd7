"""What `run` is made of: the clients, the tools they need, their days, and the table."""
