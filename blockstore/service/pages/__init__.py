"""The pages of the compactor and of the gateway: what both show of a table's blocks, and how a page
is served.

Rules:
- A page loads nothing from another host: its libraries are package data (``static/vendor``, made by
  ``scripts/assets``).
- The content security policy admits no inline script and no inline style
  (``blockstore.service.serving``).
- Names, labels and reasons come from the bucket: they reach a page as JSON and stand in it as text,
  never as markup.
"""
