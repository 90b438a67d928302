"""What this program believes of the trainers, and the check of it against a trainer's source."""
