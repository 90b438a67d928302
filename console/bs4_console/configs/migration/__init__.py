"""The two directions of `config migrate`, and the account that both keep of every value."""
