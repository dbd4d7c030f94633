"""What was decided and attempted for every request, in SQLite or any database SQLAlchemy knows."""
