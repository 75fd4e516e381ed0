"""The operations of a table, one file each: what a commit needs to know, decided purely, then
carried out."""
