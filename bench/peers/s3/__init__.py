"""The contestants on an S3 server: the table of a folder is at a prefix named after the folder.

The server's address and keys are in the environment (``AWS_…``), as every one of them expects.
"""
