"""How a block lives and dies: upload, states, the exact cover, the list path, the order of
removal."""
