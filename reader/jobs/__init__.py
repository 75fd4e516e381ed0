"""Work that outlives a request: queries, downloads and uploads whose records lie in the bucket."""
