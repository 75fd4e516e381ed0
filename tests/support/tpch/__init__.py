"""TPC-H: its 22 questions in SQL, its tables as lakes, and answers beside those of DuckDB on the
bare files."""
