"""Care of a table: look whether it is whole, mend it, mark it, bring back a lost index, ship
blocks, copy tables."""
