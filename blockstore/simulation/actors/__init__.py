"""The processes of a simulated run: each file holds some roles, ``cast.py`` names them all."""
